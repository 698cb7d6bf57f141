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

use crate::{
    domain::{
        Item,
        decision::{Decision, apply, decide, is_unchanged},
        keys::VersionDigits,
        ledger::Retention,
        names,
        recent_requests::Window,
        update::Update,
        version::Version,
        version_item::latest_of,
    },
    dynamodb::{
        Store,
        write::outcome::{WriteError, WriteOutcome},
    },
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
pub(crate) fn unchanged(update: &Update, stored: &Item, digits: VersionDigits) -> Result<Option<Version>, WriteError> {
    let applies = stored.contains_key(names::LATEST) && decide(update, Some(stored))? == Decision::Apply;
    let changes_nothing = applies && is_unchanged(stored, &apply(update, Some(stored), digits)?);
    Ok(changes_nothing.then(|| latest_of(stored)).transpose()?)
}
