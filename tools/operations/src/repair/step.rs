//! Steps of a repair, and their execution.

use futures::{StreamExt as _, stream};
use serde_json::{Value, json};
use shared::{
    config::Window,
    domain::{
        Item, entity::EntityId, keys::sort_key_of, quarantine::QuarantinedRecord, version::Version,
        version_item::VersionItem,
    },
    dynamodb::{Store, put::put_version::PutOutcome},
    logging::chain,
};

use crate::{
    error::OperationError,
    latest::write::{move_latest, raise_latest, revive_latest, without_state},
    progress::Progress,
    prune::requests::raise_floor,
    quarantine::delete_quarantined,
    redrive::{Count, Tally},
};

/// Maximum number of concurrent steps. Each writes other items.
const CONCURRENCY: usize = 16;

/// A step for an entity.
#[derive(Debug)]
pub struct Step {
    pub(super) entity: EntityId,
    pub(super) action: Action,
}

#[derive(Debug)]
pub(super) enum Action {
    /// Puts a version item, which is missing, from this source.
    Put { version: VersionItem, source: String },
    /// Puts the version in a quarantined record, unless it is stored already, and deletes the record from quarantine.
    Release {
        version: VersionItem,
        record: QuarantinedRecord,
    },
    /// Gives the latest item this number.
    Number {
        numbering: Numbering,
        to: Version,
        /// Highest version of the entity when the step was planned, `None` if there was none.
        highest: Option<Version>,
    },
}

/// Reason for the number of a latest item. Each name is the name of its step in JSON.
#[derive(Debug)]
pub(super) enum Numbering {
    /// The counter was set back below existing versions. The latest item becomes the version after the highest one, or the
    /// highest one if both are equal.
    Raise { from: Version },
    /// The time of the latest item is far ahead. The latest item becomes the next version, with the same state, and a new
    /// sequence of times begins.
    Retime { from: Version },
    /// The latest item has no `Latest`: another client wrote it. It gets a number as in [`Self::Raise`].
    Adopt,
    /// The floor shows that the entity had versions, although neither a version nor the latest item has the number of the floor
    /// or a higher one. The counter continues with the number after the floor, so that no version is created below it. The floor
    /// rises to the same number, because the version at the old floor does not exist.
    Recount {
        /// `true` if there is no latest item: a tombstone is created, as the state is not known.
        is_tombstone: bool,
        from: Option<Version>,
    },
    /// The latest item was deleted: it is created again from the highest version.
    Revive(Item),
    /// The latest item is at the padded sort key of version 0, such as `v00`.
    Move { padded: Item, latest: Item },
}

impl Step {
    pub fn version(&self) -> Version {
        match &self.action {
            Action::Put { version, .. } | Action::Release { version, .. } => version.version(),
            Action::Number { to, .. } => *to,
        }
    }

    /// Returns `{"ID": …, "Step": "Record", "Version": 7, "Source": "v0"}`.
    pub fn to_json(&self) -> Value {
        let (id, version) = (self.entity.as_str(), self.version());
        let mut json = json!({"ID": id, "Step": "Record", "Version": version});
        let (step, name, value) = match &self.action {
            Action::Put { source, .. } => ("Record", "Source", json!(source)),
            Action::Release { record, .. } => ("Release", "SequenceNumber", json!(record.number)),
            Action::Number { numbering, .. } => match numbering {
                Numbering::Raise { from } => return json!({"ID": id, "Step": "Raise", "From": from, "To": version}),
                Numbering::Retime { from } => return json!({"ID": id, "Step": "Retime", "From": from, "To": version}),
                Numbering::Move { padded, .. } => {
                    return json!({"ID": id, "Step": "Move", "From": sort_key_of(padded), "Version": version});
                }
                Numbering::Recount { is_tombstone: true, .. } => ("Recount", "Tombstone", json!(true)),
                Numbering::Recount { .. } => ("Recount", "Version", json!(version)),
                Numbering::Adopt => ("Adopt", "Version", json!(version)),
                Numbering::Revive(_) => ("Revive", "Version", json!(version)),
            },
        };
        (json["Step"], json[name]) = (json!(step), value);
        json
    }
}

/// Executes the steps. A failed step does not stop the others.
pub(super) async fn execute(store: &Store, steps: &[Step], progress: &dyn Progress, tally: &mut Tally) {
    // A step that gives a latest item its number must not count on a version that another step is about to put.
    let is_numbering = |step: &&Step| matches!(step.action, Action::Number { .. });
    let (numbering, puts): (Vec<_>, Vec<_>) = steps.iter().partition(is_numbering);
    let mut done = 0;
    for steps in [puts, numbering] {
        let steps = stream::iter(steps).map(async |step| (step, step.execute(store).await));
        let mut steps = std::pin::pin!(steps.buffer_unordered(CONCURRENCY));
        while let Some((step, outcome)) = steps.next().await {
            let mut named = json!({"ID": step.entity.as_str(), "Version": step.version()});
            match outcome {
                Ok(Count::Conflict) => tally.list(Count::Conflict, 1, named),
                Ok(outcome) => tally.count(outcome, 1),
                Err(error) => {
                    named["Reason"] = json!(chain(&error));
                    tally.list(Count::Failed, 1, named);
                }
            }
            done += 1;
            progress.at(done);
        }
    }
}

impl Step {
    /// Returns the outcome: a conflict if a different item exists, or the highest version has changed.
    async fn execute(&self, store: &Store) -> Result<Count, OperationError> {
        match &self.action {
            Action::Put { version, .. } => put_unremoved(store, version).await,
            Action::Release { version, record } => {
                // DynamoDB rejects some versions before it compares them with the stored item.
                let count = match store.preview_put(version).await? {
                    PutOutcome::AlreadyRecorded => Count::AlreadyRecorded,
                    _ => put_unremoved(store, version).await?,
                };
                if count != Count::Conflict {
                    delete_quarantined(store, record).await?;
                }
                Ok(count)
            }
            Action::Number { numbering, to, highest } => {
                let is_done = numbering.execute(store, &self.entity, *to, *highest).await?;
                Ok(match numbering {
                    _ if !is_done => Count::Conflict,
                    Numbering::Raise { .. } | Numbering::Retime { .. } | Numbering::Recount { .. } => Count::Raised,
                    Numbering::Adopt | Numbering::Move { .. } => Count::Adopted,
                    Numbering::Revive(_) => Count::Revived,
                })
            }
        }
    }
}

impl Numbering {
    /// Returns `false` if the highest version or the latest item has changed.
    async fn execute(
        &self,
        store: &Store,
        entity: &EntityId,
        to: Version,
        highest: Option<Version>,
    ) -> Result<bool, OperationError> {
        // A stream record that was under way may have been processed since the plan, or the entity was purged.
        let newest = store.newest_in_history(entity, true).await?.map(|(version, _)| version);
        let is_as_planned = match self {
            // There can be versions below the floor.
            Self::Recount { .. } | Self::Retime { .. } => newest.is_none_or(|newest| newest < to),
            _ => newest == highest,
        };
        if !is_as_planned {
            return Ok(false);
        }
        if let Self::Recount { .. } = self {
            // First: if this is interrupted, no version can be created below the floor.
            raise_floor(store, entity, to).await?;
        }
        let create = async |latest: Item| {
            let is_created = revive_latest(store, entity, to, &latest, Window::default()).await?;
            Ok::<_, OperationError>(is_created.then_some(latest))
        };
        let latest = match self {
            Self::Raise { from } | Self::Retime { from } => raise_latest(store, entity, Some(*from), to).await?,
            Self::Adopt => raise_latest(store, entity, None, to).await?,
            Self::Recount { is_tombstone: true, .. } => create(without_state(entity, to, store.now())).await?,
            Self::Recount { from, .. } => raise_latest(store, entity, *from, to).await?,
            // Its version item exists.
            Self::Revive(latest) => return Ok(create(latest.clone()).await?.is_some()),
            Self::Move { padded, latest } => move_latest(store, padded, latest).await?.then(|| latest.clone()),
        };
        let Some(latest) = latest else { return Ok(false) };
        // The version item of a latest item is put here, since the table may have no reader of its stream.
        let version = VersionItem::from_image(latest, store.digits())?;
        let version = store.removed([entity], false).await?.erased(version);
        Ok(store.put_version(&version).await? != PutOutcome::Conflict)
    }
}

/// Puts a version item, unless its entity was purged, or the version was pruned.
async fn put_unremoved(store: &Store, version: &VersionItem) -> Result<Count, OperationError> {
    let removed = store.removed([version.entity()], true).await?;
    if removed.is_purged(version) {
        return Ok(Count::Purged);
    }
    let is_pruned = removed.is_below_floor(version);
    let version = &removed.erased(version.clone());
    let put = match is_pruned {
        true => store.preview_put(version).await?,
        false => store.put_version(version).await?,
    };
    Ok(match put {
        PutOutcome::Recorded if is_pruned => Count::Pruned,
        PutOutcome::Recorded => Count::Recorded,
        PutOutcome::AlreadyRecorded => Count::AlreadyRecorded,
        PutOutcome::Conflict => Count::Conflict,
    })
}
