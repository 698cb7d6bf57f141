//! Execution of a repair plan.

use crate::latest::{recount::Counter, repair::Step};
use futures::{StreamExt as _, stream};
use serde_json::{Value, json};
use shared::{
    domain::{recent_requests::Window, tombstone, version::Version, version_item::VersionItem},
    dynamodb::{Store, put::put_version::PutOutcome},
    logging::chain,
};

use super::plan::Planned;
use crate::{error::OperationError, progress::Progress};

/// Maximum number of concurrent steps. Each writes other items.
const CONCURRENCY: usize = 16;

enum Outcome {
    Recorded,
    AlreadyRecorded,
    Raised,
    Adopted,
    Revived,
    /// The version was purged after the plan, and is not put.
    Purged,
    /// The version was pruned after the plan, and is not put.
    Pruned,
    /// A different item exists, which was not overwritten, or the highest version has changed.
    Conflict,
}

#[derive(Debug, Default)]
pub struct Done {
    recorded: u64,
    already_recorded: u64,
    raised: u64,
    adopted: u64,
    revived: u64,
    purged: u64,
    pruned: u64,
    conflicts: Vec<Value>,
    failed: Vec<Value>,
}

impl Done {
    /// Executes the steps. A failed step does not stop the others.
    pub async fn execute(&mut self, store: &Store, steps: Vec<Planned>, progress: &dyn Progress) {
        // A step that gives a latest item its number must not count on a version that another step is about to put.
        let (numbering, puts): (Vec<_>, Vec<_>) = steps.into_iter().partition(|planned| planned.step.is_numbering());
        let mut done = 0;
        self.execute_all(store, puts, &mut done, progress).await;
        self.execute_all(store, numbering, &mut done, progress).await;
    }

    async fn execute_all(&mut self, store: &Store, steps: Vec<Planned>, done: &mut u64, progress: &dyn Progress) {
        let steps = stream::iter(steps).map(async |planned| {
            let outcome = step(store, &planned).await;
            (planned, outcome)
        });
        let mut steps = std::pin::pin!(steps.buffer_unordered(CONCURRENCY));
        while let Some((planned, outcome)) = steps.next().await {
            let named = json!({"ID": planned.entity.as_str(), "Version": planned.version()});
            match outcome {
                Ok(Outcome::Recorded) => self.recorded += 1,
                Ok(Outcome::AlreadyRecorded) => self.already_recorded += 1,
                Ok(Outcome::Raised) => self.raised += 1,
                Ok(Outcome::Adopted) => self.adopted += 1,
                Ok(Outcome::Revived) => self.revived += 1,
                Ok(Outcome::Purged) => self.purged += 1,
                Ok(Outcome::Pruned) => self.pruned += 1,
                Ok(Outcome::Conflict) => self.conflicts.push(named),
                Err(error) => {
                    let mut named = named;
                    named["Reason"] = json!(chain(&error));
                    self.failed.push(named);
                }
            }
            *done += 1;
            progress.at(*done);
        }
    }

    pub fn counts(&self) -> Value {
        json!({
            "Entities": 0, "Recorded": self.recorded, "AlreadyRecorded": self.already_recorded, "Raised": self.raised,
            "Adopted": self.adopted, "Revived": self.revived, "Purged": self.purged, "Pruned": self.pruned, "Conflict": self.conflicts.len(),
            "Failed": self.failed.len(), "Left": 0, "DryRun": false,
        })
    }

    /// Returns the steps that were not done, by reason.
    pub fn lists(&self) -> [(&'static str, &[Value]); 2] {
        [("Conflicts", &self.conflicts), ("FailedSteps", &self.failed)]
    }

    pub fn add_lists(&self, summary: &mut Value) {
        for (name, list) in self.lists() {
            summary[name] = json!(list);
        }
    }

    /// Returns an error if anything is not repaired. `left` is the number of findings without a step.
    pub fn verdict(&self, left: usize) -> Result<(), OperationError> {
        let parts = [
            (
                self.conflicts.len(),
                "met a different item or another highest version: run the repair again",
            ),
            (self.failed.len(), "failed, can be retried"),
            (left, "cannot be repaired"),
        ];
        let parts = parts.iter().filter(|(count, _)| *count > 0);
        let parts: Vec<_> = parts.map(|(count, what)| format!("{count} {what}")).collect();
        let message = format!("not all is repaired: {}", parts.join(", "));
        if !self.failed.is_empty() {
            return Err(OperationError::Retryable(message));
        }
        match self.conflicts.is_empty() && left == 0 {
            true => Ok(()),
            false => Err(OperationError::Incomplete(message)),
        }
    }
}

async fn step(store: &Store, planned: &Planned) -> Result<Outcome, OperationError> {
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
            return Ok(Outcome::Conflict);
        }
    }
    match &planned.step {
        Step::Put(version) => put_unremoved(store, version).await,
        Step::Release { version, record } => {
            // DynamoDB rejects some versions before it compares them with the stored item.
            let outcome = match store.preview_put(version).await? {
                PutOutcome::AlreadyRecorded => Outcome::AlreadyRecorded,
                _ => put_unremoved(store, version).await?,
            };
            if !matches!(outcome, Outcome::Conflict) {
                store.delete_quarantined(record).await?;
            }
            Ok(outcome)
        }
        Step::Revive { version, latest } => Ok(
            match crate::latest::revive_latest::revive_latest(
                &store,
                &planned.entity,
                *version,
                latest,
                Window::default(),
            )
            .await?
            {
                true => Outcome::Revived,
                false => Outcome::Conflict,
            },
        ),
        Step::Recount { from, to } => Ok(match recount(store, planned, *from, *to).await? {
            true => Outcome::Raised,
            false => Outcome::Conflict,
        }),
        Step::Raise { from, to } | Step::Retime { from, to } => {
            Ok(match raise(store, planned, Some(*from), *to).await? {
                true => Outcome::Raised,
                false => Outcome::Conflict,
            })
        }
        Step::Adopt { to } => Ok(match raise(store, planned, None, *to).await? {
            true => Outcome::Adopted,
            false => Outcome::Conflict,
        }),
        Step::Move { padded, latest, .. } => {
            let version = VersionItem::from_image(latest.clone(), store.digits())?;
            Ok(
                match crate::latest::move_latest::move_latest(&store, padded, latest).await? {
                    true if is_stored(store, &version).await? => Outcome::Adopted,
                    _ => Outcome::Conflict,
                },
            )
        }
    }
}

/// Raises the floor first: if this is interrupted, no version can be created below it.
async fn recount(store: &Store, planned: &Planned, from: Counter, to: Version) -> Result<bool, OperationError> {
    crate::prune::requests::raise_floor(&store, &planned.entity, to).await?;
    match from {
        Counter::At(from) => raise(store, planned, Some(from), to).await,
        Counter::Uncounted => raise(store, planned, None, to).await,
        Counter::NoLatestItem => {
            let latest = tombstone::without_state(&planned.entity, to, store.now());
            let is_created =
                crate::latest::revive_latest::revive_latest(&store, &planned.entity, to, &latest, Window::default())
                    .await?;
            Ok(is_created && is_stored(store, &VersionItem::from_image(latest, store.digits())?).await?)
        }
    }
}

async fn raise(store: &Store, planned: &Planned, from: Option<Version>, to: Version) -> Result<bool, OperationError> {
    let Some(latest) = crate::latest::raise_latest::raise_latest(&store, &planned.entity, from, to).await? else {
        return Ok(false);
    };
    is_stored(store, &VersionItem::from_image(latest, store.digits())?).await
}

/// Puts a version item, since the table may have no reader of its stream. Returns `false` if a different item exists.
async fn is_stored(store: &Store, version: &VersionItem) -> Result<bool, OperationError> {
    Ok(!matches!(put(store, version).await?, Outcome::Conflict))
}

/// Puts a version item, unless its entity was purged, or the version was pruned.
async fn put_unremoved(store: &Store, version: &VersionItem) -> Result<Outcome, OperationError> {
    let removed = store.removed([version.entity()]).await?;
    match removed.is_purged(version) {
        true => Ok(Outcome::Purged),
        false if removed.is_below_floor(version) => Ok(match store.preview_put(version).await? {
            PutOutcome::Recorded => Outcome::Pruned,
            PutOutcome::AlreadyRecorded => Outcome::AlreadyRecorded,
            PutOutcome::Conflict => Outcome::Conflict,
        }),
        false => put(store, version).await,
    }
}

async fn put(store: &Store, version: &VersionItem) -> Result<Outcome, OperationError> {
    Ok(match store.put_version(version).await? {
        PutOutcome::Recorded => Outcome::Recorded,
        PutOutcome::AlreadyRecorded => Outcome::AlreadyRecorded,
        PutOutcome::Conflict => Outcome::Conflict,
    })
}
