//! Three ways to make the next version, behind one interface.
//!
//! | mode | requests | write units, items up to 1 KB |
//! |---|---|---|
//! | `stream` | `UpdateItem` of v0; the stream makes vN | 1, and 1 by the stream |
//! | `inline` | `UpdateItem` of v0, then `PutItem` of vN | 2 |
//! | `transaction` | `GetItem` of v0, then `TransactWriteItems` of both | 4 |
//!
//! All three make the same items and have the same outcomes. With a ledger, the latest item is written in a transaction with
//! the request's marker, in each mode: `GetItem`, then `TransactWriteItems`.

use std::str::FromStr;

use thiserror::Error;

use super::{
    Store,
    error::{ErrorKind, ServiceError},
    record_version::RecordError,
};
use crate::domain::{
    Item,
    decision::{Decision, apply, decide, is_unchanged},
    keys::VersionDigits,
    ledger::Retention,
    names,
    recent::Window,
    size::OverLimit,
    update::Update,
    version::Version,
    version_item::{InvalidImage, latest_of},
};

/// How a version is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WriteMode {
    /// The latest item alone; the table's stream makes the version item.
    #[default]
    Stream,
    /// The latest item, then the version item, in the same call.
    Inline,
    /// Both or neither.
    Transaction,
}

impl FromStr for WriteMode {
    type Err = InvalidWriteMode;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "stream" => Ok(Self::Stream),
            "inline" => Ok(Self::Inline),
            "transaction" => Ok(Self::Transaction),
            _ => Err(InvalidWriteMode),
        }
    }
}

/// Neither `stream`, `inline` nor `transaction`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the write mode is \"stream\", \"inline\" or \"transaction\"")]
pub struct InvalidWriteMode;

/// By what an update that was applied before is known again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Idempotency {
    /// The latest item remembers this many of its last requests at least.
    Recent(Window),
    /// Every request has a marker, for this long.
    Ledger(Retention),
}

impl Default for Idempotency {
    fn default() -> Self {
        Self::Recent(Window::default())
    }
}

impl Idempotency {
    /// By its name, `recent` or `ledger`.
    pub fn named(name: &str, window: Window, retention: Retention) -> Result<Self, InvalidIdempotency> {
        match name {
            "recent" => Ok(Self::Recent(window)),
            "ledger" => Ok(Self::Ledger(retention)),
            _ => Err(InvalidIdempotency),
        }
    }
}

/// Neither `recent` nor `ledger`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the idempotency is \"recent\" or \"ledger\"")]
pub struct InvalidIdempotency;

/// How updates are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WriteOptions {
    /// How a version is made.
    pub mode: WriteMode,
    /// By what a repeated update is known again.
    pub idempotency: Idempotency,
    /// Whether an update that would change nothing makes no version. It costs a read.
    pub skip_unchanged: bool,
}

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
    pub(super) fn refusal(self) -> Option<WriteOutcome> {
        match self {
            Self::Apply => None,
            Self::Duplicate { version } => Some(WriteOutcome::Duplicate { version }),
            Self::Conflict { expected, latest } => Some(WriteOutcome::Conflict { expected, latest }),
            Self::Stale { version } => Some(WriteOutcome::Stale { version }),
        }
    }
}

impl Store {
    /// Makes the next version of the update's entity.
    pub async fn write(&self, update: &Update, options: WriteOptions) -> Result<WriteOutcome, WriteError> {
        let window = match options.idempotency {
            Idempotency::Recent(window) if options.mode != WriteMode::Transaction => window,
            // On the heap, as all three: callers would have to hold the largest.
            _ => return Box::pin(self.write_transaction(update, options)).await,
        };
        if options.skip_unchanged
            && let Some(version) = self.unchanged(update).await?
        {
            return Ok(WriteOutcome::Unchanged { version });
        }
        if options.mode == WriteMode::Inline {
            Box::pin(self.write_inline(update, window)).await
        } else {
            Box::pin(self.write_version(update, window)).await
        }
    }

    async fn unchanged(&self, update: &Update) -> Result<Option<Version>, WriteError> {
        match self.get(&update.entity, &self.digits.latest_key(), true).await? {
            Some(stored) => unchanged(update, &stored, self.digits),
            None => Ok(None),
        }
    }
}

/// The latest version, if the update would be applied to it and change nothing.
pub(super) fn unchanged(update: &Update, stored: &Item, digits: VersionDigits) -> Result<Option<Version>, WriteError> {
    let applies = stored.contains_key(names::LATEST) && decide(update, Some(stored))? == Decision::Apply;
    let changes_nothing = applies && is_unchanged(stored, &apply(update, Some(stored), digits)?);
    Ok(changes_nothing.then(|| latest_of(stored)).transpose()?)
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
        source: RecordError,
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
                source: RecordError(error),
                ..
            } => error.kind,
            Self::Contended { .. } => ErrorKind::Throttled,
            // As DynamoDB refuses to count what is no number.
            Self::Latest(_) | Self::TooLarge(_) | Self::RequestIdReused { .. } => ErrorKind::Rejected,
            Self::Unexplained | Self::Taken { .. } => ErrorKind::Unavailable,
        }
    }
}
