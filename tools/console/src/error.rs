//! Errors of pages and forms, with their HTTP status.

use axum::http::StatusCode;
use operations::error::{Kind, OperationError};
use shared::{
    domain::entity::InvalidEntityId,
    dynamodb::{client::error::ServiceError, read::versions::ReadError, write::restore::RestoreError},
    logging::chain,
};
use thiserror::Error;

/// The reason why a page cannot be shown, or a form was not executed.
#[derive(Debug, Error)]
pub(crate) enum PageError {
    /// The query or the form is not valid.
    #[error("{0}")]
    Invalid(String),
    /// The console is read-only.
    #[error("{0}")]
    Forbidden(String),
    /// Something does not exist.
    #[error("{0}")]
    NotFound(String),
    /// The state of the table or the console prevents the action.
    #[error("{0}")]
    Conflict(String),
    /// Work in the background ended without a result.
    #[error("{0}")]
    Unavailable(String),
    /// An operation failed.
    #[error(transparent)]
    Operation(#[from] OperationError),
}

impl PageError {
    /// Returns the error of a field that cannot be parsed.
    pub(crate) fn invalid(field: &str, error: impl std::error::Error) -> Self {
        Self::Invalid(format!("{field}: {}", chain(&error)))
    }

    /// Returns the HTTP status.
    pub(crate) fn status(&self) -> StatusCode {
        match self {
            Self::Invalid(_) => StatusCode::BAD_REQUEST,
            Self::Forbidden(_) => StatusCode::FORBIDDEN,
            Self::NotFound(_) => StatusCode::NOT_FOUND,
            Self::Conflict(_) => StatusCode::CONFLICT,
            Self::Unavailable(_) => StatusCode::BAD_GATEWAY,
            Self::Operation(error) => match error.kind() {
                Kind::Invalid => StatusCode::BAD_REQUEST,
                Kind::NotFound => StatusCode::NOT_FOUND,
                Kind::Conflict => StatusCode::CONFLICT,
                Kind::Unavailable => StatusCode::BAD_GATEWAY,
            },
        }
    }
}

macro_rules! from_library {
    ($($error:ty),*) => {
        $(impl From<$error> for PageError {
            fn from(error: $error) -> Self {
                Self::Operation(error.into())
            }
        })*
    };
}

from_library!(InvalidEntityId, ReadError, RestoreError, ServiceError);
