//! Outcomes become answers.

use aws_lambda_events::event::sqs::SqsBatchResponse;
use serde::Serialize;
use shared::{
    domain::{entity::EntityId, version::Version},
    dynamodb::write::WriteOutcome,
};

use crate::error::Error;

/// The answer to an invocation.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum Response {
    /// To a direct invocation or an `EventBridge` event.
    Update(Answer),
    /// To an SQS batch: the messages that failed.
    Batch(SqsBatchResponse),
}

/// What became of one update: `{"ID": "Equipment#1", "Version": 7, "Outcome": "Written"}`.
#[derive(Debug, Serialize)]
pub struct Answer {
    #[serde(rename = "ID")]
    id: Id,
    #[serde(rename = "Version")]
    version: Version,
    #[serde(rename = "Outcome")]
    outcome: &'static str,
}

#[derive(Debug)]
struct Id(EntityId);

impl Serialize for Id {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.as_str())
    }
}

impl Answer {
    /// A conflict is answered by an error.
    pub fn of(entity: &EntityId, outcome: WriteOutcome) -> Result<Self, Error> {
        let (outcome, version) = match outcome {
            WriteOutcome::Written { version } => ("Written", version),
            WriteOutcome::Duplicate { version } => ("Duplicate", version),
            WriteOutcome::Stale { version } => ("Stale", version),
            WriteOutcome::Unchanged { version } => ("Unchanged", version),
            WriteOutcome::Conflict { expected, latest } => return Err(Error::VersionConflict { expected, latest }),
        };
        Ok(Self {
            id: Id(entity.clone()),
            version,
            outcome,
        })
    }

    /// `Written`, `Duplicate`, `Stale` or `Unchanged`.
    pub fn outcome(&self) -> &'static str {
        self.outcome
    }

    /// The version that the update made, or, if it made none, the latest one.
    pub fn version(&self) -> u64 {
        self.version.get()
    }
}
