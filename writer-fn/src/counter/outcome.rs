//! Outcomes and errors of an update, common to all write modes.

use shared::{
    domain::{version::Version, version_item::InvalidImage},
    dynamodb::{
        client::error::{ErrorKind, ServiceError},
        read::layout_error::LayoutError,
    },
};
use thiserror::Error;

/// Maximum number of versions that a [search](super::earlier_delivery) reads. They cost up to as many read units, or more if they are
/// larger than 4 KB.
pub(crate) const MAX_SEARCHED: u64 = 10_000;

/// Outcome of an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteOutcome {
    /// It created a version.
    Written {
        /// New version.
        version: Version,
    },
    /// It was applied before; nothing changed.
    Duplicate {
        /// Version that it created.
        version: Version,
    },
    /// It is older than the latest item; nothing changed.
    Stale {
        /// Latest version.
        version: Version,
    },
    /// It would change nothing, and was skipped.
    Unchanged {
        /// Latest version.
        version: Version,
    },
    /// The latest version is not the expected one; nothing changed.
    Conflict {
        /// Expected version, 0 for none.
        expected: u64,
        /// Latest version, 0 for none.
        latest: u64,
    },
}

/// Reason why an update was not applied, or not completely.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum WriteError {
    /// A request failed.
    #[error("failed to write the version")]
    Service(#[from] ServiceError),
    /// The latest item has no valid version: another client wrote it.
    #[error("the latest item has no valid version")]
    Latest(#[from] InvalidImage),
    /// The condition failed on an item that satisfies it: another client wrote the item, for example with a `Timestamp` that
    /// is not a number.
    #[error("the condition failed on an item that satisfies it")]
    FailedWithoutViolation,
    /// The update was applied, but its version item could not be put. The stream, a repair or a retry can still put it.
    #[error("version {version} was applied but not recorded")]
    NotRecorded {
        /// Version.
        version: Version,
        /// Error of the put.
        source: ServiceError,
    },
    /// The deletion was applied, and its version is right, but attributes that it deletes are still on the latest item. A retry or the
    /// next update removes them.
    #[error("version {version} was applied, but attributes that it deletes are still on the latest item")]
    StateRemains {
        /// Version.
        version: Version,
        /// Error of the removal.
        source: ServiceError,
    },
    /// The latest item is missing or has no `Latest`, but there are versions, or a floor: counting from 1 would repeat their
    /// numbers. Nothing changed.
    #[error(
        "the entity reached version {version} or a later one, but no latest item counts it: run `vzero admin repair ID --revive`"
    )]
    CounterMissing {
        /// Highest version in history, or its floor.
        version: Version,
    },
    /// Another program has written versions of the entity with keys of another width. Nothing changed.
    #[error(transparent)]
    Layout(Box<LayoutError>),
    /// Updates are ordered by time, but the time of the latest item cannot be read. Nothing changed.
    #[error("the time of version {version} cannot be read, so it is not known whether the update is older")]
    TimeUnreadable {
        /// Latest version.
        version: Version,
    },
    /// The update changes members of a map that the latest item does not have. Nothing changed.
    #[error("the latest item has no map {path}, whose members the update changes: set the whole map first")]
    NoMap {
        /// Names of the path to the map, separated by dots.
        path: String,
    },
    /// The key of the next version is taken by a different item: the counter was set back.
    #[error("the key of version {version} is taken by a different item")]
    Taken {
        /// Version.
        version: Version,
    },
    /// The request id was used for another update.
    #[error("the request id was used for another update, version {version}")]
    RequestIdReused {
        /// Version that the other update created.
        version: Version,
    },
    /// The update was sent before, and history does not have a version that is needed to find out whether it was applied: the
    /// stream is behind. Nothing changed.
    #[error("version {version}, which is needed to detect a duplicate, is not in the history")]
    HistoryBehind {
        /// Missing version.
        version: Version,
    },
    /// As [`Self::HistoryBehind`], but more versions are needed than one search reads. Nothing changed.
    #[error(
        "it cannot be decided whether the update was applied before: more than {MAX_SEARCHED} versions were created since it was sent"
    )]
    TooManyToSearch,
    /// As [`Self::HistoryBehind`], but the version was pruned: the update can never be applied. Nothing changed.
    #[error("version {version}, which is needed to detect a duplicate, was pruned")]
    Pruned {
        /// Missing version.
        version: Version,
    },
    /// A change set needs more actions than a transaction has. Nothing changed.
    #[error(
        "the change set has {entities} entities, and a transaction has room for {max}: send several sets with one ChangeSet, if they can be \
         applied one after the other"
    )]
    TooManyActions {
        /// Number of entities.
        entities: usize,
        /// Maximum number with these settings.
        max: usize,
    },
    /// The items of a change set are larger than a transaction can be. Nothing changed.
    #[error("the items of the change set have more than 4 MB, and a transaction has at most 4 MB")]
    TooLargeTogether,
    /// The time of an entity is far ahead of the writer's clock, and a change set would give it to the others. Nothing changed.
    #[error(
        "the time of version {version} is far ahead, and the other entities would get it: run `vzero admin repair`"
    )]
    FarAhead {
        /// Latest version.
        version: Version,
    },
    /// The change set was applied, but neither the latest item nor history has the version of this entity: another program removed it.
    #[error("the change set was applied before, and the version of this entity was removed")]
    VersionUnknown,
    /// A concurrent update won every attempt.
    #[error("concurrent updates won all {attempts} attempts")]
    Contended {
        /// Number of attempts.
        attempts: u32,
    },
}

impl From<LayoutError> for WriteError {
    fn from(error: LayoutError) -> Self {
        match error {
            LayoutError::Service(error) => Self::Service(error),
            error => Self::Layout(Box::new(error)),
        }
    }
}

impl WriteError {
    /// Returns the kind of the error.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Service(error)
            | Self::StateRemains { source: error, .. }
            | Self::NotRecorded { source: error, .. } => error.kind,
            Self::Contended { .. } => ErrorKind::Throttled,
            // DynamoDB also rejects an update of a counter that is not a number.
            Self::Latest(_)
            | Self::NoMap { .. }
            | Self::RequestIdReused { .. }
            | Self::TooManyActions { .. }
            | Self::TooLargeTogether => ErrorKind::Rejected,
            Self::FailedWithoutViolation
            | Self::HistoryBehind { .. }
            | Self::TooManyToSearch
            | Self::Pruned { .. }
            | Self::FarAhead { .. }
            | Self::VersionUnknown
            | Self::CounterMissing { .. }
            | Self::Layout(_)
            | Self::TimeUnreadable { .. }
            | Self::Taken { .. } => ErrorKind::Unavailable,
        }
    }
}
