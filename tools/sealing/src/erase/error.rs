//! Errors of erasures. None contains a value of an item.

use operations::error::OperationError;
use shared::{domain::erased::InsideList, dynamodb::client::error::ServiceError};
use thiserror::Error;

use crate::error::SealError;

/// Reason why nothing is erased.
#[derive(Debug, Error)]
pub enum EraseError {
    /// The log, or what belongs to it, cannot be used.
    #[error(transparent)]
    Seal(#[from] SealError),
    /// The entity has no version.
    #[error("the entity has no version")]
    NoVersion,
    /// The versions have nothing that can be erased.
    #[error("no version has a value that can be erased")]
    Nothing,
    /// A path that no version has.
    #[error("no version has this path")]
    NoPath(Vec<String>),
    /// A path of a key.
    #[error("a key attribute names the item, and cannot be erased: purge the item")]
    Key(Vec<String>),
    /// A path inside of a list.
    #[error(transparent)]
    InsideList(#[from] InsideList),
}

impl From<ServiceError> for EraseError {
    fn from(error: ServiceError) -> Self {
        SealError::from(error).into()
    }
}

impl From<OperationError> for EraseError {
    fn from(error: OperationError) -> Self {
        SealError::from(error).into()
    }
}
