//! Errors of operations.

use std::{io, path::PathBuf};

use shared::{
    domain::{attached::key::InvalidKey, entity::InvalidEntityId, version::Version, version_item::InvalidImage},
    dynamodb::{
        client::error::{ErrorKind, ServiceError},
        read::{layout_error::LayoutError, versions::ReadError},
    },
};
use thiserror::Error;
use writer_fn::{
    counter::{WriteError, WriteOutcome},
    update::MAX_ATTRIBUTES,
};

use crate::{hold::Hold, request_error::RequestError};

#[derive(Debug, Error)]
pub enum OperationError {
    #[error("the entity")]
    Entity(#[from] InvalidEntityId),
    /// The key of an item of an attached table.
    #[error("the key")]
    Key(#[from] InvalidKey),
    #[error("there is no {0}")]
    NoEntity(String),
    #[error("there is no such version")]
    NoVersion,
    #[error("there is no table {0}")]
    NoTable(String),
    /// Other programs write the table, and no history of it is found, for these reasons.
    #[error("{}", no_history(table, reasons))]
    NoHistory { table: String, reasons: Vec<String> },
    #[error("there is no {0}")]
    NotFound(String),
    /// The queue that the updates of a dead-letter queue belong to is not known.
    #[error("cannot tell where the updates of {queue} are sent to: it is the dead-letter queue of {sources} queues")]
    SourceQueues { queue: String, sources: usize },
    /// Both keys of a table belong to the name of an entity.
    #[error("{table} has two keys: both name its entities")]
    TwoKeys { table: String, keys: Vec<String> },
    /// The template of an entity's partition key does not contain a key of the table.
    #[error("without {{{0}}}, two items can be one entity")]
    KeyNotNamed(String),
    /// A file or folder with failure documents cannot be read.
    #[error("{}", path.display())]
    File { path: PathBuf, source: io::Error },
    /// A checkpoint cannot be read.
    #[error("{}", path.display())]
    Checkpoint { path: PathBuf, source: io::Error },
    #[error("cannot write the checkpoint")]
    SaveCheckpoint(#[source] io::Error),
    /// A file of sorted rows cannot be written or read.
    #[error("a temporary file failed: set TMPDIR to a folder with more space")]
    TemporaryFile(#[source] io::Error),
    #[error("expected version {expected}, but the latest is {latest}")]
    Expected {
        /// Expected version, 0 for none.
        expected: u64,
        /// Latest version, 0 for none.
        latest: u64,
    },
    /// Versions of the entity are kept until its hold is released.
    #[error("it is {0}")]
    Held(Hold),
    #[error("the update is older than the latest version, {0}")]
    Stale(Version),
    /// The operation ended, but not everything could be done.
    #[error("{0}")]
    Incomplete(String),
    /// The operation ended, but a part of it failed and can be retried.
    #[error("{0}")]
    Retryable(String),
    #[error(transparent)]
    Image(#[from] InvalidImage),
    #[error(transparent)]
    Request(#[from] RequestError),
    #[error("failed to read or write the table")]
    Service(#[from] ServiceError),
    #[error(transparent)]
    Write(#[from] WriteError),
    /// Another client writes the entity that is purged.
    #[error(
        "it is being written: the versions that it had when the purge began are deleted, and another client wrote it since; \
         stop its writers, and purge it again"
    )]
    WrittenAgain,
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// The stream is behind. Nothing changed.
    #[error("version {version} is not in the history yet: try again when the stream has delivered it")]
    NotInHistory { version: Version },
    /// History has no state from before the deletion: there was none, or it was pruned. Nothing changed.
    #[error("the history has no version before the tombstone, version {tombstone}, that could be restored")]
    NothingBefore { tombstone: Version },
    /// The entity is not deleted, and more attributes differ than one request can set. Nothing changed.
    #[error(
        "{count} attributes differ, and one request can set {MAX_ATTRIBUTES}: delete the entity, and restore the version then"
    )]
    TooManyAttributes { count: usize },
    #[error("the table is not attached")]
    NotAttached,
    /// The version does not have the state of the item.
    #[error("the version has no state, because it did not fit: its record is in quarantine")]
    Omitted,
    /// The item is not in its newest state in history.
    #[error("the item differs from its newest version: its last change is not in history yet, or is missing there")]
    Differs,
    /// Another client changed the item after it was read.
    #[error("another client changed the item in the meantime, nothing is written: repeat the command")]
    Changed,
    #[error("{0}")]
    Invalid(String),
    /// The state of the table or of another table prevents the operation. Nothing changed.
    #[error("{0}")]
    Refused(String),
    /// The item would expire at once.
    #[error(
        "DynamoDB would delete the item at once: its time to live, {attribute}, has passed; --allow-expired writes it all the same"
    )]
    Expired { attribute: String },
    /// The table is still being created after these seconds.
    #[error("the table is not active after {0} s; run the command again")]
    NotActive(u64),
}

/// Class of an error, for exit codes and HTTP statuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Invalid,
    NotFound,
    /// Another write came first, or the table contains inconsistent items.
    Conflict,
    /// A service, the network or a file failed. A retry may succeed.
    Unavailable,
}

fn no_history(table: &str, reasons: &[String]) -> String {
    match reasons {
        [] => format!(
            "other programs write the table {table}, and it has no history: `vzero attach {table}` shows how to store it"
        ),
        reasons => format!(
            "no history of the table {table} was found: {}; name it with --history-table, or `vzero attach {table}` shows how to \
             store it",
            reasons.join("; ")
        ),
    }
}

impl OperationError {
    pub fn kind(&self) -> Kind {
        match self {
            Self::Layout(error) if is_mismatch(error) => Kind::Invalid,
            Self::Write(WriteError::Layout(error)) if is_mismatch(error) => Kind::Invalid,
            Self::Entity(_)
            | Self::Key(_)
            | Self::Checkpoint { .. }
            | Self::SourceQueues { .. }
            | Self::TwoKeys { .. }
            | Self::KeyNotNamed(_)
            | Self::TooManyAttributes { .. }
            | Self::NotAttached
            | Self::Invalid(_) => Kind::Invalid,
            Self::NoEntity(_)
            | Self::NoVersion
            | Self::NoTable(_)
            | Self::NoHistory { .. }
            | Self::NothingBefore { .. }
            | Self::NotFound(_)
            | Self::Read(
                ReadError::Missing { .. }
                | ReadError::NoTime { .. }
                | ReadError::NotRecordedAt { .. }
                | ReadError::Limit { .. }
                | ReadError::Pruned { .. },
            ) => Kind::NotFound,
            Self::File { source, .. } if source.kind() == io::ErrorKind::NotFound => Kind::NotFound,
            Self::Expected { .. }
            | Self::Stale(_)
            | Self::Held(_)
            | Self::Incomplete(_)
            | Self::Image(_)
            | Self::WrittenAgain
            | Self::Differs
            | Self::Changed
            | Self::Refused(_)
            | Self::Expired { .. }
            | Self::Write(
                WriteError::Contended { .. }
                | WriteError::Taken { .. }
                | WriteError::RequestIdReused { .. }
                | WriteError::CounterMissing { .. }
                | WriteError::TimeUnreadable { .. },
            )
            | Self::Read(ReadError::Uncounted | ReadError::Latest(_)) => Kind::Conflict,
            // DynamoDB rejects such a request regardless of its sender.
            Self::Service(error) if error.kind == ErrorKind::Rejected => Kind::Invalid,
            Self::Write(error) if error.kind() == ErrorKind::Rejected => Kind::Invalid,
            _ => Kind::Unavailable,
        }
    }

    /// Returns the error of an outcome that changed nothing although it should have.
    pub fn of_outcome(outcome: WriteOutcome) -> Option<Self> {
        match outcome {
            WriteOutcome::Conflict { expected, latest } => Some(Self::Expected { expected, latest }),
            WriteOutcome::Stale { version } => Some(Self::Stale(version)),
            WriteOutcome::Written { .. } | WriteOutcome::Duplicate { .. } | WriteOutcome::Unchanged { .. } => None,
        }
    }
}

/// Returns `true` if the stored layout is not that of the table or of the settings, so that a retry does not help.
pub fn is_mismatch(error: &LayoutError) -> bool {
    use LayoutError::{Absent, NotInTime, Service, Unreadable};
    !matches!(error, Absent { .. } | Unreadable | NotInTime | Service(_))
}
