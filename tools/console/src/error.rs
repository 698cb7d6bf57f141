//! Errors of pages and forms, with their HTTP status.

use std::error::Error as StdError;

use axum::http::StatusCode;
use operations::error::{Kind, OperationError};
use sealing::error::SealError;
use shared::domain::{entity::EntityId, version::Version};
use thiserror::Error;

#[derive(Debug, Error)]
pub(crate) enum PageError {
    #[error("missing parameter: {0}")]
    Missing(&'static str),
    #[error("{0}: expected {1}")]
    Unexpected(&'static str, &'static str),
    #[error("{0}")]
    Invalid(&'static str, #[source] Box<dyn StdError + Send + Sync>),
    #[error("the console is read-only: start it with --write to change the table")]
    ReadOnly,
    #[error("{0}")]
    NotFound(String),
    /// The state of the table or the console prevents the action.
    #[error("{0}")]
    Conflict(String),
    #[error("the seal cannot be read")]
    Seal(#[source] SealError),
    #[error(transparent)]
    Operation(OperationError),
}

impl PageError {
    pub(crate) fn no_entity(entity: &EntityId) -> Self {
        OperationError::NoEntity(entity.as_str().to_owned()).into()
    }

    pub(crate) fn no_version(entity: &EntityId, version: Version) -> Self {
        Self::NotFound(format!("there is no version {version} of {}", entity.as_str()))
    }

    pub(crate) fn status(&self) -> StatusCode {
        let kind = match self {
            Self::Missing(_) | Self::Unexpected(..) | Self::Invalid(..) => Kind::Invalid,
            Self::ReadOnly => return StatusCode::FORBIDDEN,
            Self::NotFound(_) => Kind::NotFound,
            Self::Conflict(_) => Kind::Conflict,
            Self::Seal(_) => Kind::Unavailable,
            Self::Operation(error) => error.kind(),
        };
        match kind {
            Kind::Invalid => StatusCode::BAD_REQUEST,
            Kind::NotFound => StatusCode::NOT_FOUND,
            Kind::Conflict => StatusCode::CONFLICT,
            Kind::Unavailable => StatusCode::BAD_GATEWAY,
        }
    }
}

/// Errors of the library.
impl<E> From<E> for PageError
where
    OperationError: From<E>,
{
    fn from(error: E) -> Self {
        Self::Operation(error.into())
    }
}
