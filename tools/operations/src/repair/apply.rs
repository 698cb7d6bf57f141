//! Execution of a repair plan.

use futures::{StreamExt as _, stream};
use serde_json::json;
use shared::{
    config::Window,
    domain::{Item, entity::EntityId, tombstone, version::Version, version_item::VersionItem},
    dynamodb::{Store, put::put_version::PutOutcome},
    logging::chain,
};

use super::plan::Planned;
use crate::{
    error::OperationError,
    latest::{
        move_latest::move_latest, raise_latest::raise_latest, recount::Counter, repair::Step,
        revive_latest::revive_latest,
    },
    progress::Progress,
    prune::requests::raise_floor,
    redrive::{Count, Tally},
};

/// Maximum number of concurrent steps. Each writes other items.
const CONCURRENCY: usize = 16;

/// Executes the steps. A failed step does not stop the others.
pub async fn execute(store: &Store, steps: Vec<Planned>, progress: &dyn Progress) -> Tally {
    // A step that gives a latest item its number must not count on a version that another step is about to put.
    let (numbering, puts): (Vec<_>, Vec<_>) = steps.into_iter().partition(|planned| planned.step.is_numbering());
    let (mut tally, mut done) = (Tally::of_repair(), 0);
    for steps in [puts, numbering] {
        let steps = stream::iter(steps).map(async |planned| {
            let outcome = step(store, &planned).await;
            (planned, outcome)
        });
        let mut steps = std::pin::pin!(steps.buffer_unordered(CONCURRENCY));
        while let Some((planned, outcome)) = steps.next().await {
            let mut named = json!({"ID": planned.entity.as_str(), "Version": planned.version()});
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

/// Executes a step. Returns its outcome: a conflict if a different item exists, or the highest version has changed.
async fn step(store: &Store, planned: &Planned) -> Result<Count, OperationError> {
    if planned.step.is_numbering() {
        // A stream record that was under way may have been processed since the plan, or the entity was purged.
        let newest = store.newest_in_history(&planned.entity, true).await?;
        let newest = newest.map(|(version, _)| version);
        let is_as_planned = match &planned.step {
            // There can be versions below the floor.
            Step::Recount { to, .. } | Step::Retime { to, .. } => newest.is_none_or(|newest| newest < *to),
            _ => newest == planned.highest,
        };
        if !is_as_planned {
            return Ok(Count::Conflict);
        }
    }
    let entity = &planned.entity;
    let (is_done, count) = match &planned.step {
        Step::Put(version) => return put_unremoved(store, version).await,
        Step::Release { version, record } => {
            // DynamoDB rejects some versions before it compares them with the stored item.
            let count = match store.preview_put(version).await? {
                PutOutcome::AlreadyRecorded => Count::AlreadyRecorded,
                _ => put_unremoved(store, version).await?,
            };
            if count != Count::Conflict {
                store.delete_quarantined(record).await?;
            }
            return Ok(count);
        }
        Step::Revive { version, latest } => (
            revive_latest(store, entity, *version, latest, Window::default()).await?,
            Count::Revived,
        ),
        Step::Recount { from, to } => (recount(store, entity, *from, *to).await?, Count::Raised),
        Step::Raise { from, to } | Step::Retime { from, to } => {
            (raise(store, entity, Some(*from), *to).await?, Count::Raised)
        }
        Step::Adopt { to } => (raise(store, entity, None, *to).await?, Count::Adopted),
        Step::Move { padded, latest, .. } => (
            move_latest(store, padded, latest).await? && is_stored(store, latest.clone()).await?,
            Count::Adopted,
        ),
    };
    Ok(if is_done { count } else { Count::Conflict })
}

/// Raises the floor first: if this is interrupted, no version can be created below it.
async fn recount(store: &Store, entity: &EntityId, from: Counter, to: Version) -> Result<bool, OperationError> {
    raise_floor(store, entity, to).await?;
    match from {
        Counter::At(from) => raise(store, entity, Some(from), to).await,
        Counter::Uncounted => raise(store, entity, None, to).await,
        Counter::NoLatestItem => {
            let latest = tombstone::without_state(entity, to, store.now());
            let is_created = revive_latest(store, entity, to, &latest, Window::default()).await?;
            Ok(is_created && is_stored(store, latest).await?)
        }
    }
}

async fn raise(store: &Store, entity: &EntityId, from: Option<Version>, to: Version) -> Result<bool, OperationError> {
    match raise_latest(store, entity, from, to).await? {
        Some(latest) => is_stored(store, latest).await,
        None => Ok(false),
    }
}

/// Puts the version item of a latest item, since the table may have no reader of its stream. Returns `false` if a different item
/// exists.
async fn is_stored(store: &Store, latest: Item) -> Result<bool, OperationError> {
    let version = VersionItem::from_image(latest, store.digits())?;
    Ok(store.put_version(&version).await? != PutOutcome::Conflict)
}

/// Puts a version item, unless its entity was purged, or the version was pruned.
async fn put_unremoved(store: &Store, version: &VersionItem) -> Result<Count, OperationError> {
    let removed = store.removed([version.entity()]).await?;
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
