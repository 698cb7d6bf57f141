//! Errors of pages and forms, with their HTTP status.

use std::error::Error as StdError;

use axum::http::StatusCode;
use operations::{
    error::{Kind, OperationError},
    revision::RestoreError,
};
use shared::{
    domain::entity::InvalidEntityId,
    dynamodb::{client::error::ServiceError, read::versions::ReadError},
};
use thiserror::Error;

#[derive(Debug, Error)]
pub(crate) enum PageError {
    #[error("missing parameter: {0}")]
    Missing(&'static str),
    #[error("{field}: expected {expected}")]
    Unexpected {
        field: &'static str,
        expected: &'static str,
    },
    #[error("{field}")]
    Invalid {
        field: &'static str,
        source: Box<dyn StdError + Send + Sync>,
    },
    #[error("the console is read-only: start it with --allow-write to change the table")]
    ReadOnly,
    #[error("{0}")]
    NotFound(String),
    /// The state of the table or the console prevents the action.
    #[error("{0}")]
    Conflict(String),
    #[error(transparent)]
    Operation(#[from] OperationError),
}

impl PageError {
    pub(crate) fn status(&self) -> StatusCode {
        let kind = match self {
            Self::Missing(_) | Self::Unexpected { .. } | Self::Invalid { .. } => Kind::Invalid,
            Self::ReadOnly => return StatusCode::FORBIDDEN,
            Self::NotFound(_) => Kind::NotFound,
            Self::Conflict(_) => Kind::Conflict,
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
