//! Errors of pages and forms, with their HTTP status.

use std::{error::Error as StdError, sync::Arc};

use axum::http::StatusCode;
use operations::error::{Kind, OperationError};
use shared::{
    domain::entity::InvalidEntityId,
    dynamodb::{client::error::ServiceError, read::versions::ReadError, write::restore::RestoreError},
};
use thiserror::Error;

/// The reason why a page cannot be shown, or a form was not executed.
#[derive(Debug, Error)]
pub(crate) enum PageError {
    /// A field of the query or the form is missing.
    #[error("missing parameter: {0}")]
    Missing(&'static str),
    /// A field of the query or the form has none of the expected values.
    #[error("{field}: expected {expected}")]
    Unexpected {
        field: &'static str,
        expected: &'static str,
    },
    /// A field of the query or the form cannot be parsed.
    #[error("{field}")]
    Invalid {
        field: &'static str,
        source: Box<dyn StdError + Send + Sync>,
    },
    /// The console is read-only.
    #[error("the console is read-only: start it with --allow-write to change the table")]
    ReadOnly,
    /// Something does not exist.
    #[error("{0}")]
    NotFound(String),
    /// The state of the table or the console prevents the action.
    #[error("{0}")]
    Conflict(String),
    /// A redrive or a repair is running.
    #[error("another redrive or repair is running: try again when it has ended")]
    Busy,
    /// Work in the background ended without a result.
    #[error("the operation was interrupted: try again")]
    Interrupted,
    /// An operation failed.
    #[error(transparent)]
    Operation(#[from] OperationError),
    /// A repair cannot be planned.
    #[error(transparent)]
    Plan(#[from] Arc<OperationError>),
}

impl PageError {
    /// Returns the HTTP status.
    pub(crate) fn status(&self) -> StatusCode {
        let kind = match self {
            Self::Missing(_) | Self::Unexpected { .. } | Self::Invalid { .. } => Kind::Invalid,
            Self::ReadOnly => return StatusCode::FORBIDDEN,
            Self::NotFound(_) => Kind::NotFound,
            Self::Conflict(_) | Self::Busy => Kind::Conflict,
            Self::Interrupted => Kind::Unavailable,
            Self::Operation(error) => error.kind(),
            Self::Plan(error) => error.kind(),
        };
        match kind {
            Kind::Invalid => StatusCode::BAD_REQUEST,
            Kind::NotFound => StatusCode::NOT_FOUND,
            Kind::Conflict => StatusCode::CONFLICT,
            Kind::Unavailable => StatusCode::BAD_GATEWAY,
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
