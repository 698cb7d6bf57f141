//! Outcome of commands that write one version.

use operations::{error::OperationError, revision::ChangeOptions};
use serde_json::json;
use shared::domain::{entity::EntityId, request_id::RequestId};
use writer_fn::{counter::WriteOutcome, update::Update};

use crate::{error::CliError, output::Output};

/// Prints the outcome, or returns it as an error if nothing was written.
pub(super) fn print(id: &str, outcome: WriteOutcome, output: &Output) -> Result<(), CliError> {
    let (name, version) = match outcome {
        WriteOutcome::Written { version } => ("Written", version),
        WriteOutcome::Duplicate { version } => ("Duplicate", version),
        WriteOutcome::Unchanged { version } => ("Unchanged", version),
        WriteOutcome::Stale { .. } | WriteOutcome::Conflict { .. } => {
            return OperationError::of_outcome(outcome).map_or(Ok(()), |error| Err(error.into()));
        }
    };
    output.object(&json!({"ID": id, "Version": version, "Outcome": name}))
}

/// Splits an update into the parts that a restore takes.
pub(super) fn parts(update: Update) -> (EntityId, RequestId, ChangeOptions) {
    let revision = ChangeOptions {
        expected: update.expected,
        timestamp: update.timestamp,
        sent_at: update.sent_at,
        changes: update.changes,
    };
    (update.entity, update.request_id, revision)
}
