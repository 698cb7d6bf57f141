//! Errors, with their exit codes.

use std::error::Error;

use operations::error::{Kind, OperationError, is_mismatch};
use patterns::time_series::LoadError;
use sealing::error::SealError;
use shared::{
    domain::entity::InvalidEntityId,
    dynamodb::{
        client::error::{ErrorKind, ServiceError},
        read::{layout_error::LayoutError, versions::ReadError},
    },
};
use writer_fn::counter::WriteError;

const UNPROVEN: u8 = 1;
pub(crate) const USAGE: u8 = 2;
pub(crate) const NOT_FOUND: u8 = 3;
pub(crate) const CONFLICT: u8 = 4;
pub(crate) const UNAVAILABLE: u8 = 5;

#[derive(Debug, thiserror::Error)]
pub(crate) enum CliError {
    #[error("{0}")]
    Usage(String),
    #[error("{0}")]
    NotFound(String),
    /// The table contains a conflicting or inconsistent item.
    #[error("{0}")]
    Conflict(String),
    /// A proof does not hold.
    #[error("{0}")]
    Unproven(String),
    /// The width of version keys is not known, or another one.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error(transparent)]
    Operation(#[from] OperationError),
    #[error(transparent)]
    Sealed(SealError),
    /// An error with its object, cause and next step.
    #[error("{text}")]
    Explained {
        text: String,
        exit_code: u8,
        source: Box<CliError>,
    },
    /// Standard output failed, or the runtime did not start.
    #[error("input/output failed")]
    Io(#[from] std::io::Error),
}

impl CliError {
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Sealed(SealError::File(..) | SealError::Contended(_) | SealError::Setting(_)) => UNAVAILABLE,
            Self::Unproven(_) | Self::Sealed(_) => UNPROVEN,
            Self::Layout(error) if is_mismatch(error) => USAGE,
            Self::Usage(_) | Self::Load(LoadError::Twice { .. } | LoadError::Invalid { .. }) => USAGE,
            // DynamoDB rejects such a request regardless of its sender.
            Self::Load(LoadError::Service { source, .. }) if source.kind == ErrorKind::Rejected => USAGE,
            Self::Layout(_) | Self::Load(_) | Self::Io(_) => UNAVAILABLE,
            Self::NotFound(_) => NOT_FOUND,
            Self::Conflict(_) => CONFLICT,
            Self::Operation(error) => match error.kind() {
                Kind::Invalid => USAGE,
                Kind::NotFound => NOT_FOUND,
                Kind::Conflict => CONFLICT,
                Kind::Unavailable => UNAVAILABLE,
            },
            Self::Explained { exit_code, .. } => *exit_code,
        }
    }

    /// Returns the causes of the error, the nearest first.
    pub(crate) fn causes(&self) -> impl Iterator<Item = &(dyn Error + 'static)> {
        let mut next = self.source();
        std::iter::from_fn(move || {
            let cause = next?;
            next = cause.source();
            Some(cause)
        })
    }

    pub(crate) fn usage(argument: &str, error: impl Error) -> Self {
        Self::Usage(format!("{argument}: {}", shared::logging::chain(&error)))
    }

    pub(crate) fn no_entity(id: &str) -> Self {
        OperationError::NoEntity(id.to_owned()).into()
    }
}

impl From<SealError> for CliError {
    fn from(error: SealError) -> Self {
        match error {
            SealError::Service(error) => error.into(),
            SealError::Read(error) => error.into(),
            SealError::Operation(error) => (*error).into(),
            error => Self::Sealed(error),
        }
    }
}

macro_rules! from_library {
    ($($error:ty),*) => {
        $(impl From<$error> for CliError {
            fn from(error: $error) -> Self {
                Self::Operation(error.into())
            }
        })*
    };
}

from_library!(InvalidEntityId, ReadError, ServiceError, WriteError);
