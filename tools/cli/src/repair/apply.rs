//! A plan, carried out.

use futures::{StreamExt as _, stream};
use serde_json::{Value, json};
use shared::{
    domain::{repair::Step, version_item::VersionItem},
    dynamodb::{Store, put::put_version::RecordOutcome},
    logging::chain,
};

use super::plan::Planned;
use crate::{connection::Connection, error::CliError, output, progress::Count};

/// How many steps are under way at once. They are about different items.
const CONCURRENCY: usize = 16;

/// What a step came to.
enum Outcome {
    Recorded,
    AlreadyRecorded,
    Raised,
    Revived,
    /// Somebody wrote something else in between. It was left as it is.
    Conflict,
}

/// What was done.
#[derive(Debug, Default)]
pub(crate) struct Done {
    recorded: u64,
    already_recorded: u64,
    raised: u64,
    revived: u64,
    conflicts: Vec<Value>,
    failed: Vec<Value>,
}

impl Done {
    /// Carries out these steps. One that fails stops no other.
    pub(crate) async fn carry_out(&mut self, connection: &Connection, steps: Vec<Planned>, count: Count) {
        let store = &connection.store;
        let steps = stream::iter(steps).map(async |planned| {
            let outcome = step(store, &planned).await;
            (planned, outcome)
        });
        let mut steps = std::pin::pin!(steps.buffer_unordered(CONCURRENCY));
        let mut done = 0;
        while let Some((planned, outcome)) = steps.next().await {
            let named = json!({"ID": planned.entity.as_str(), "Version": planned.version()});
            match outcome {
                Ok(Outcome::Recorded) => self.recorded += 1,
                Ok(Outcome::AlreadyRecorded) => self.already_recorded += 1,
                Ok(Outcome::Raised) => self.raised += 1,
                Ok(Outcome::Revived) => self.revived += 1,
                Ok(Outcome::Conflict) => self.conflicts.push(named),
                Err(error) => {
                    let mut named = named;
                    named["Reason"] = json!(chain(&error));
                    self.failed.push(named);
                }
            }
            done += 1;
            count.at(done);
        }
    }

    pub(crate) fn summary(&self) -> Value {
        json!({
            "Entities": 0, "Recorded": self.recorded, "AlreadyRecorded": self.already_recorded, "Raised": self.raised,
            "Revived": self.revived, "Conflict": self.conflicts.len(), "Failed": self.failed.len(), "Left": 0, "DryRun": false,
            "Conflicts": self.conflicts, "FailedSteps": self.failed,
        })
    }

    /// On a terminal, what was not done is said line by line.
    pub(crate) fn say_lists(summary: &mut Value) {
        for name in ["Conflicts", "FailedSteps"] {
            let list = summary.as_object_mut().and_then(|summary| summary.shift_remove(name));
            for one in list.as_ref().and_then(Value::as_array).into_iter().flatten() {
                output::say_note(&format!("{name}: {one}"));
            }
        }
    }

    /// An error where not all is as it should be.
    pub(crate) fn verdict(&self, left: usize) -> Result<(), CliError> {
        let parts = [
            (self.conflicts.len(), "met something else"),
            (self.failed.len(), "failed, to be tried again"),
            (left, "cannot be repaired"),
        ];
        let parts = parts.iter().filter(|(count, _)| *count > 0);
        let said: Vec<_> = parts.map(|(count, what)| format!("{count} {what}")).collect();
        let said = format!("not all is repaired: {}", said.join(", "));
        if !self.failed.is_empty() {
            return Err(CliError::Unavailable(said));
        }
        match self.conflicts.is_empty() && left == 0 {
            true => Ok(()),
            false => Err(CliError::Wrong(said)),
        }
    }
}

async fn step(store: &Store, planned: &Planned) -> Result<Outcome, CliError> {
    match &planned.step {
        Step::Record(version) => record(store, version).await,
        Step::Revive { version, latest } => Ok(match store.revive_latest(&planned.entity, *version, latest).await? {
            true => Outcome::Revived,
            false => Outcome::Conflict,
        }),
        Step::Raise { from, to } => {
            let Some(latest) = store.raise_latest(&planned.entity, *from, *to).await? else {
                return Ok(Outcome::Conflict);
            };
            // Nobody may read the stream.
            let version = VersionItem::from_image(latest, store.digits());
            let version = version.map_err(|error| CliError::Wrong(error.to_string()))?;
            Ok(match record(store, &version).await? {
                Outcome::Conflict => Outcome::Conflict,
                _ => Outcome::Raised,
            })
        }
    }
}

async fn record(store: &Store, version: &VersionItem) -> Result<Outcome, CliError> {
    Ok(match store.record_version(version).await? {
        RecordOutcome::Recorded => Outcome::Recorded,
        RecordOutcome::AlreadyRecorded => Outcome::AlreadyRecorded,
        RecordOutcome::Conflict => Outcome::Conflict,
    })
}
