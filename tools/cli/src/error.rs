//! What goes wrong, with its exit code.

use shared::dynamodb::{
    client::error::{ErrorKind, ServiceError},
    maintain::{backfill::BackfillError, purge::PurgeError},
    put::put_version::RecordError,
    read::{table_config::WidthError, versions::ReadError},
    write::{WriteError, WriteOutcome, restore::RestoreError},
};
use thiserror::Error;

use crate::redrive::RequestError;

/// An error that knows its exit code.
#[derive(Debug, Error)]
pub(crate) enum CliError {
    /// What was asked cannot be done as it was asked.
    #[error("{0}")]
    Usage(String),
    /// What was asked is not allowed here.
    #[error("{0}")]
    Forbidden(String),
    /// There is no such thing.
    #[error("{0}")]
    NotFound(String),
    /// Somebody else was faster, or time has moved on.
    #[error("{0}")]
    Conflict(String),
    /// The table is not as it should be.
    #[error("{0}")]
    Wrong(String),
    /// What could not be done now may be done later.
    #[error("{0}")]
    Unavailable(String),
    /// A request to another service.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// The width of version keys.
    #[error(transparent)]
    Width(#[from] WidthError),
    /// The service or the way to it.
    #[error("the table could not be read or written")]
    Service(#[from] ServiceError),
    /// A write.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// A version that could not be written down.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// A read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A purge.
    #[error(transparent)]
    Purge(#[from] PurgeError),
    /// Standard output, or a file.
    #[error("the answer could not be written")]
    Output(#[from] std::io::Error),
}

impl CliError {
    /// 2 usage, 3 not found, 4 conflict, stale or something wrong, 5 service or network.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) | Self::Forbidden(_) | Self::Width(WidthError::Other { .. }) => 2,
            Self::NotFound(_)
            | Self::Read(ReadError::Missing { .. } | ReadError::NoTime { .. } | ReadError::Pruned { .. }) => 3,
            Self::Conflict(_)
            | Self::Wrong(_)
            | Self::Purge(PurgeError::WrittenAgain)
            | Self::Write(
                WriteError::Contended { .. } | WriteError::Taken { .. } | WriteError::RequestIdReused { .. },
            ) => 4,
            // A request that DynamoDB refuses whoever sends it.
            Self::Service(error) if error.kind == ErrorKind::Rejected => 2,
            Self::Write(error) if error.kind() == ErrorKind::Rejected => 2,
            _ => 5,
        }
    }

    /// Something that cannot be read as what it should be.
    pub(crate) fn usage(what: &str, error: impl std::error::Error) -> Self {
        Self::Usage(format!("{what}: {}", shared::logging::chain(&error)))
    }

    /// The outcomes that changed nothing, and should have.
    pub(crate) fn of_outcome(outcome: WriteOutcome) -> Option<Self> {
        match outcome {
            WriteOutcome::Conflict { expected, latest } => Some(Self::Conflict(format!(
                "expected version {expected}, but the latest is {latest}"
            ))),
            WriteOutcome::Stale { version } => Some(Self::Conflict(format!(
                "the update is older than the latest version, {version}"
            ))),
            WriteOutcome::Written { .. } | WriteOutcome::Duplicate { .. } | WriteOutcome::Unchanged { .. } => None,
        }
    }
}

impl From<BackfillError> for CliError {
    fn from(error: BackfillError) -> Self {
        match error {
            BackfillError::Service(error) | BackfillError::Record(RecordError(error)) => Self::Service(error),
            BackfillError::Write(error) => Self::Write(error),
            BackfillError::Image(error) => Self::Write(WriteError::Latest(error)),
        }
    }
}

impl From<RestoreError> for CliError {
    fn from(error: RestoreError) -> Self {
        match error {
            RestoreError::NotFound => Self::NotFound("there is no such version".to_owned()),
            RestoreError::Read(error) => Self::Read(error),
            RestoreError::Write(error) => Self::Write(error),
        }
    }
}
