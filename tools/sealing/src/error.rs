//! Errors of sealing. None contains a value of an item.

use operations::error::OperationError;
use seal::{format::FormatError, log::checkpoint::CheckpointError, proof::in_log::InLogError};
use shared::dynamodb::{client::error::ServiceError, read::versions::ReadError};
use thiserror::Error;

/// Reason why versions are not sealed, or not proven.
#[derive(Debug, Error)]
pub enum SealError {
    /// A request failed.
    #[error(transparent)]
    Service(#[from] ServiceError),
    /// A table cannot be opened.
    #[error(transparent)]
    Operation(Box<OperationError>),
    /// Versions cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A file of the log cannot be used.
    #[error("the file {0} of the log cannot be used")]
    File(String, #[source] std::io::Error),
    /// The log lacks an object.
    #[error("the log has no readable file {0}")]
    Missing(String),
    /// The log contradicts a proof, or itself.
    #[error(transparent)]
    InLog(#[from] InLogError),
    /// The published checkpoint is not the log's.
    #[error("the checkpoint of the log cannot be used")]
    Checkpoint(#[from] CheckpointError),
    /// A version has no canonical form.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// The log, or what belongs to it, contradicts itself. Nothing more is sealed until somebody has looked.
    #[error("nothing is sealed: {0}")]
    Contradiction(String),
    /// An item or an object is not what this release writes.
    #[error("{0} cannot be read: another release or another program wrote it")]
    Unreadable(String),
    /// Another instance, or an erasure, changed the same again and again.
    #[error("others changed what is sealed {0} times at the same time")]
    Contended(u32),
    /// A setting is missing or invalid.
    #[error("{0}")]
    Setting(String),
}

impl From<OperationError> for SealError {
    fn from(error: OperationError) -> Self {
        Self::Operation(Box::new(error))
    }
}
