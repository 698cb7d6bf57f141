//! The responses of the function.

use aws_lambda_events::event::sqs::SqsBatchResponse;
use serde::Serialize;
use shared::domain::{entity::EntityId, version::Version};

use crate::{counter::WriteOutcome, error::Error};

/// The response to an invocation.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum Response {
    /// Response to a direct invocation or an `EventBridge` event.
    Update(UpdateResponse),
    /// Response to an SQS batch: the messages that failed.
    Batch(SqsBatchResponse),
}

/// The outcome of one update: `{"ID": "Equipment#1", "Version": 7, "Outcome": "Written"}`.
#[derive(Debug, Serialize)]
pub struct UpdateResponse {
    #[serde(rename = "ID")]
    id: String,
    #[serde(rename = "Version")]
    version: Version,
    #[serde(rename = "Outcome")]
    outcome: &'static str,
}

impl UpdateResponse {
    /// Creates the response for an outcome. A conflict is an error.
    pub fn new(entity: &EntityId, outcome: WriteOutcome) -> Result<Self, Error> {
        let (outcome, version) = match outcome {
            WriteOutcome::Written { version } => ("Written", version),
            WriteOutcome::Duplicate { version } => ("Duplicate", version),
            WriteOutcome::Stale { version } => ("Stale", version),
            WriteOutcome::Unchanged { version } => ("Unchanged", version),
            WriteOutcome::Conflict { expected, latest } => return Err(Error::VersionConflict { expected, latest }),
        };
        Ok(Self {
            id: entity.as_str().to_owned(),
            version,
            outcome,
        })
    }

    /// Returns `Written`, `Duplicate`, `Stale` or `Unchanged`.
    pub fn outcome(&self) -> &'static str {
        self.outcome
    }

    /// Returns the version that the update created or, if it created none, the latest version.
    pub fn version(&self) -> u64 {
        self.version.get()
    }
}
