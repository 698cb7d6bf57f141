//! Errors, with their exit codes.

use operations::{
    error::{Kind, OperationError, is_mismatch},
    revision::RestoreError,
    table::{adopt::AdoptError, copy_history::CopyError, create::CreateTableError},
};
use patterns::time_series::LoadError;
use shared::{
    domain::entity::InvalidEntityId,
    dynamodb::{
        client::error::{ErrorKind, ServiceError},
        read::{layout_error::LayoutError, versions::ReadError},
    },
};
use thiserror::Error;
use writer_fn::counter::WriteError;

#[derive(Debug, Error)]
pub(crate) enum CliError {
    #[error("{0}")]
    Usage(String),
    #[error("{0}")]
    NotFound(String),
    /// The table contains a conflicting or inconsistent item.
    #[error("{0}")]
    Conflict(String),
    /// The width of version keys is not known, or another one.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    #[error(transparent)]
    Adopt(#[from] AdoptError),
    #[error(transparent)]
    CreateTable(#[from] CreateTableError),
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error(transparent)]
    Operation(#[from] OperationError),
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
    /// Returns 2 for usage, 3 for not found, 4 for a conflict or findings, 5 for a service or the network.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Layout(error) | Self::Adopt(AdoptError::Layout(error)) => layout_exit_code(error),
            Self::Usage(_)
            | Self::Load(LoadError::Twice { .. } | LoadError::Invalid { .. })
            | Self::Adopt(AdoptError::NotNamed(_)) => 2,
            Self::Explained { exit_code, .. } => *exit_code,
            Self::Adopt(
                AdoptError::Service(_)
                | AdoptError::Create(_)
                | AdoptError::Copy(CopyError::Put(_) | CopyError::Service(_)),
            ) => 5,
            Self::NotFound(_) => 3,
            Self::Conflict(_) | Self::Adopt(_) => 4,
            Self::Operation(error) => match error.kind() {
                Kind::Invalid => 2,
                Kind::NotFound => 3,
                Kind::Conflict => 4,
                Kind::Unavailable => 5,
            },
            // DynamoDB rejects such a request regardless of its sender.
            Self::CreateTable(CreateTableError::Service(error))
            | Self::Load(LoadError::Service { source: error, .. })
                if error.kind == ErrorKind::Rejected =>
            {
                2
            }
            Self::CreateTable(_) | Self::Load(_) | Self::Io(_) => 5,
        }
    }

    pub(crate) fn usage(argument: &str, error: impl std::error::Error) -> Self {
        Self::Usage(format!("{argument}: {}", shared::logging::chain(&error)))
    }

    pub(crate) fn no_entity(id: &str) -> Self {
        OperationError::NoEntity(id.to_owned()).into()
    }
}

fn layout_exit_code(error: &LayoutError) -> u8 {
    if is_mismatch(error) { 2 } else { 5 }
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

from_library!(InvalidEntityId, ReadError, RestoreError, ServiceError, WriteError);
