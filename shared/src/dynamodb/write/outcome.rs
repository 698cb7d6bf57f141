//! Outcomes and errors of an update, common to all write modes.

use thiserror::Error;

use crate::{
    domain::{decision::Decision, size::OverLimit, version::Version, version_item::InvalidImage},
    dynamodb::{
        client::error::{ErrorKind, ServiceError},
        put::put_version::PutError,
    },
};

/// What became of an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteOutcome {
    /// It is this version.
    Written {
        /// The version it made.
        version: Version,
    },
    /// It had been applied before, and nothing was changed.
    Duplicate {
        /// The version it made then.
        version: Version,
    },
    /// It is older than what is stored, and nothing was changed.
    Stale {
        /// The latest version.
        version: Version,
    },
    /// It would have changed nothing, and was left out.
    Unchanged {
        /// The latest version.
        version: Version,
    },
    /// The latest version is not the one it expected, and nothing was changed.
    Conflict {
        /// The expected one, 0 for none.
        expected: u64,
        /// The one that was met, 0 for none.
        latest: u64,
    },
}

impl Decision {
    /// The outcome of an update that is not to be applied.
    pub(crate) fn refusal(self) -> Option<WriteOutcome> {
        match self {
            Self::Apply => None,
            Self::Duplicate { version } => Some(WriteOutcome::Duplicate { version }),
            Self::Conflict { expected, latest } => Some(WriteOutcome::Conflict { expected, latest }),
            Self::Stale { version } => Some(WriteOutcome::Stale { version }),
        }
    }
}

/// Why an update could not be applied, or not to its end.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum WriteError {
    /// A request failed.
    #[error("failed to write the version")]
    Service(#[from] ServiceError),
    /// The latest item carries no version that can be read: something else than this library wrote it.
    #[error("the latest item makes no version")]
    Latest(#[from] InvalidImage),
    /// The condition failed on an item that fulfils it: something else than this library wrote the item, such as a
    /// `Timestamp` that is no number.
    #[error("the condition failed on an item that fulfils it")]
    Unexplained,
    /// The update was applied as this version, but the version item could not be put. The stream, a repair or the same
    /// update again can still put it.
    #[error("version {version} was applied but not recorded")]
    NotRecorded {
        /// The version.
        version: Version,
        /// Why its item could not be put.
        source: PutError,
    },
    /// Another item has the key of the next version: the counter was set back.
    #[error("the key of version {version} is taken by a different item")]
    Taken {
        /// The version.
        version: Version,
    },
    /// The request id belongs to another update.
    #[error("the request id was used for another update, version {version}")]
    RequestIdReused {
        /// The version that the other one made.
        version: Version,
    },
    /// With what is stored already, the version item would be too large. Nothing was changed.
    #[error("the update does not fit beside what is stored already")]
    TooLarge(#[source] OverLimit),
    /// Others were faster each time.
    #[error("lost {attempts} races for the next version")]
    Contended {
        /// How many.
        attempts: u32,
    },
}

impl WriteError {
    /// What can be done about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Service(error)
            | Self::NotRecorded {
                source: PutError(error),
                ..
            } => error.kind,
            Self::Contended { .. } => ErrorKind::Throttled,
            // As DynamoDB refuses to count what is no number.
            Self::Latest(_) | Self::TooLarge(_) | Self::RequestIdReused { .. } => ErrorKind::Rejected,
            Self::Unexplained | Self::Taken { .. } => ErrorKind::Unavailable,
        }
    }
}
