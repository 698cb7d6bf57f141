//! Reasons why an entity was not purged.

use shared::dynamodb::client::error::ServiceError;
use thiserror::Error;

/// Reason why an entity was not purged.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PurgeError {
    /// A request failed.
    #[error("failed to delete the entity")]
    Service(#[from] ServiceError),
    /// Another client is writing the entity.
    #[error(
        "it is being written: the versions that it had when the purge began are deleted, and another client wrote it since; \
         stop its writers, and purge it again"
    )]
    WrittenAgain,
}
