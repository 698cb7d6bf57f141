//! The responses of the function.

use aws_lambda_events::event::sqs::SqsBatchResponse;
use serde::Serialize;
use shared::domain::{entity::EntityId, version::Version};

use crate::{
    counter::{WriteOutcome, set::SetOutcome},
    error::Error,
    update::Update,
};

/// The response to an invocation.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum Response {
    /// Response to a direct invocation or an `EventBridge` event.
    Update(UpdateResponse),
    /// Response to an SQS batch: the messages that failed.
    Batch(SqsBatchResponse),
}

/// A version of an entity.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct WrittenVersion {
    #[serde(rename = "ID")]
    id: String,
    version: Version,
}

impl WrittenVersion {
    fn new(entity: &EntityId, version: Version) -> Self {
        Self {
            id: entity.as_str().to_owned(),
            version,
        }
    }
}

/// The outcome of an update or of a change set.
#[derive(Debug, Serialize)]
#[serde(untagged, rename_all_fields = "PascalCase")]
pub enum UpdateResponse {
    /// `{"ID": "Equipment#1", "Version": 7, "Outcome": "Written"}`
    Update {
        /// Version that the update created or, if it created none, the latest version.
        #[serde(flatten)]
        version: WrittenVersion,
        /// `Written`, `Duplicate`, `Stale` or `Unchanged`.
        outcome: &'static str,
    },
    /// `{"Outcome": "Written", "Updates": [{"ID": "Equipment#1", "Version": 7}, …]}`
    Set {
        /// `Written`, also for a second delivery.
        outcome: &'static str,
        /// Versions that the set created.
        updates: Vec<WrittenVersion>,
        /// `true` for a second delivery.
        #[serde(skip)]
        is_duplicate: bool,
    },
}

impl UpdateResponse {
    /// Creates the response for the outcome of an update. A conflict is an error.
    pub fn new(entity: &EntityId, outcome: WriteOutcome) -> Result<Self, Error> {
        let (outcome, version) = match outcome {
            WriteOutcome::Written { version } => ("Written", version),
            WriteOutcome::Duplicate { version } => ("Duplicate", version),
            WriteOutcome::Stale { version } => ("Stale", version),
            WriteOutcome::Unchanged { version } => ("Unchanged", version),
            WriteOutcome::Conflict { expected, latest } => return Err(Error::VersionConflict { expected, latest }),
        };
        let version = WrittenVersion::new(entity, version);
        Ok(Self::Update { version, outcome })
    }

    /// Creates the response for the outcome of a change set. The refusal of an update is an error.
    pub fn of_set(set: &[Update], outcome: SetOutcome) -> Result<Self, Error> {
        let (versions, is_duplicate) = match outcome {
            SetOutcome::Written(versions) => (versions, false),
            SetOutcome::Duplicate(versions) => (versions, true),
            SetOutcome::Refused { update, outcome } => {
                let entity = &set[update].entity;
                let error = match outcome {
                    WriteOutcome::Conflict { expected, latest } => Error::VersionConflict { expected, latest },
                    WriteOutcome::Written { version }
                    | WriteOutcome::Duplicate { version }
                    | WriteOutcome::Stale { version }
                    | WriteOutcome::Unchanged { version } => Error::Stale { version },
                };
                return Err(error.of(entity));
            }
        };
        let entities = set.iter().map(|update| &update.entity);
        let updates = entities
            .zip(versions)
            .map(|(entity, version)| WrittenVersion::new(entity, version));
        Ok(Self::Set {
            outcome: "Written",
            updates: updates.collect(),
            is_duplicate,
        })
    }

    /// Returns `Written`, `Duplicate`, `Stale` or `Unchanged`.
    pub fn outcome(&self) -> &'static str {
        match self {
            Self::Set { is_duplicate: true, .. } => "Duplicate",
            Self::Update { outcome, .. } | Self::Set { outcome, .. } => outcome,
        }
    }

    /// Returns the version of each entity: the one that its update created or, if it created none, the latest version.
    pub fn versions(&self) -> impl Iterator<Item = u64> {
        let versions = match self {
            Self::Update { version, .. } => std::slice::from_ref(version),
            Self::Set { updates, .. } => updates,
        };
        versions.iter().map(|written| written.version.get())
    }
}
