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
    latest::{
        move_latest::move_latest,
        raise_latest::raise_latest,
        revive_latest::{revive_latest, without_state},
    },
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
    /// Gives the latest item a number.
    Number(Numbering),
}

#[derive(Debug)]
pub(super) struct Numbering {
    pub(super) kind: Kind,
    pub(super) change: Change,
    pub(super) to: Version,
    /// Highest version of the entity when the step was planned, `None` if there was none.
    pub(super) highest: Option<Version>,
}

/// Reason why a latest item gets a number. The names are those of the steps in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// The counter was set back below existing versions. The latest item becomes the version after the highest one, or the
    /// highest one if both are equal.
    Raise,
    /// The time of the latest item is far ahead. The latest item becomes the next version, with the same state, and a new
    /// sequence of times begins.
    Retime,
    /// The latest item has no `Latest`: another client wrote it. It gets a number as in [`Self::Raise`].
    Adopt,
    /// The floor shows that the entity had versions, although neither a version nor the latest item has the number of the floor
    /// or a higher one. The counter continues with the number after the floor, so that no version is created below it. The floor
    /// rises to the same number, because the version at the old floor does not exist.
    Recount,
    /// The latest item was deleted: it is created again from the highest version.
    Revive,
    /// The latest item is at the padded sort key of version 0, such as `v00`.
    Move,
}

/// Change of a latest item that gets a number.
#[derive(Debug)]
pub(super) enum Change {
    /// Sets the number of an item with this one.
    Raise(Option<Version>),
    /// Creates an item, or a tombstone if the state is not known.
    Create(Option<Item>),
    Move {
        padded: Item,
        latest: Item,
    },
}

impl Step {
    pub fn version(&self) -> Version {
        match &self.action {
            Action::Put { version, .. } | Action::Release { version, .. } => version.version(),
            Action::Number(numbering) => numbering.to,
        }
    }

    /// Returns `{"ID": …, "Step": "Record", "Version": 7, "Source": "v0"}`.
    pub fn to_json(&self) -> Value {
        let (id, version) = (self.entity.as_str(), self.version());
        match &self.action {
            Action::Put { source, .. } => json!({"ID": id, "Step": "Record", "Version": version, "Source": source}),
            Action::Release { record, .. } => {
                json!({"ID": id, "Step": "Release", "Version": version, "SequenceNumber": record.number})
            }
            Action::Number(Numbering { kind, change, .. }) => {
                let step = format!("{kind:?}");
                match (kind, change) {
                    (Kind::Raise | Kind::Retime, Change::Raise(from)) => {
                        json!({"ID": id, "Step": step, "From": from, "To": version})
                    }
                    (_, Change::Move { padded, .. }) => {
                        json!({"ID": id, "Step": step, "From": sort_key_of(padded), "Version": version})
                    }
                    (_, Change::Create(None)) => {
                        json!({"ID": id, "Step": step, "Version": version, "Tombstone": true})
                    }
                    _ => json!({"ID": id, "Step": step, "Version": version}),
                }
            }
        }
    }
}

/// Executes the steps. A failed step does not stop the others.
pub async fn execute(store: &Store, steps: Vec<Step>, progress: &dyn Progress) -> Tally {
    // A step that gives a latest item its number must not count on a version that another step is about to put.
    let is_numbering = |step: &Step| matches!(step.action, Action::Number(_));
    let (numbering, puts): (Vec<_>, Vec<_>) = steps.into_iter().partition(is_numbering);
    let (mut tally, mut done) = (Tally::of_repair(), 0);
    for steps in [puts, numbering] {
        let steps = stream::iter(steps).map(async |step| {
            let outcome = step.execute(store).await;
            (step, outcome)
        });
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
    tally
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
            Action::Number(numbering) => {
                let count = match numbering.kind {
                    Kind::Raise | Kind::Retime | Kind::Recount => Count::Raised,
                    Kind::Adopt | Kind::Move => Count::Adopted,
                    Kind::Revive => Count::Revived,
                };
                let is_done = numbering.execute(store, &self.entity).await?;
                Ok(if is_done { count } else { Count::Conflict })
            }
        }
    }
}

impl Numbering {
    /// Returns `false` if the highest version or the latest item has changed.
    async fn execute(&self, store: &Store, entity: &EntityId) -> Result<bool, OperationError> {
        // A stream record that was under way may have been processed since the plan, or the entity was purged.
        let newest = store.newest_in_history(entity, true).await?;
        let newest = newest.map(|(version, _)| version);
        let is_as_planned = match self.kind {
            // There can be versions below the floor.
            Kind::Recount | Kind::Retime => newest.is_none_or(|newest| newest < self.to),
            _ => newest == self.highest,
        };
        if !is_as_planned {
            return Ok(false);
        }
        if self.kind == Kind::Recount {
            // First: if this is interrupted, no version can be created below the floor.
            raise_floor(store, entity, self.to).await?;
        }
        let latest = match &self.change {
            Change::Raise(from) => raise_latest(store, entity, *from, self.to).await?,
            Change::Create(latest) => {
                let tombstone = || without_state(entity, self.to, store.now());
                let latest = latest.clone().unwrap_or_else(tombstone);
                let is_created = revive_latest(store, entity, self.to, &latest, Window::default()).await?;
                is_created.then_some(latest)
            }
            Change::Move { padded, latest } => move_latest(store, padded, latest).await?.then(|| latest.clone()),
        };
        match latest {
            // The version item of a latest item is put here, since the table may have no reader of its stream.
            Some(latest) if self.kind != Kind::Revive => {
                let version = VersionItem::from_image(latest, store.digits())?;
                Ok(store.put_version(&version).await? != PutOutcome::Conflict)
            }
            latest => Ok(latest.is_some()),
        }
    }
}

/// Puts a version item, unless its entity was purged, or the version was pruned.
async fn put_unremoved(store: &Store, version: &VersionItem) -> Result<Count, OperationError> {
    let removed = store.removed([version.entity()], true).await?;
    if removed.is_purged(version) {
        return Ok(Count::Purged);
    }
    let is_pruned = removed.is_below_floor(version);
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
