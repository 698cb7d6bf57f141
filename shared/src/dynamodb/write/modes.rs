//! Write modes: three ways to create the next version, with one interface.
//!
//! | mode | requests | write units, items up to 1 KB |
//! |---|---|---|
//! | `stream` | `UpdateItem` of v0; stream-fn puts vN | 1, and 1 by the stream |
//! | `inline` | `UpdateItem` of v0, then `PutItem` of vN | 2 |
//! | `transaction` | `GetItem` of v0, then `TransactWriteItems` of both | 4 |
//!
//! All modes create the same items and have the same outcomes. With a ledger, every mode writes the latest item in a
//! transaction with the request's marker: `GetItem`, then `TransactWriteItems`.

use std::str::FromStr;

use thiserror::Error;

use crate::{
    domain::{
        Item,
        decision::{Decision, apply, decide, is_unchanged},
        keys::LATEST_KEY,
        ledger::Retention,
        names,
        recent_requests::Window,
        recorded_at::RecordedAt,
        stamp::Stamp,
        update::Update,
        version::Version,
        version_item::latest_of,
    },
    dynamodb::{
        Store,
        write::{
            earlier_delivery::{Earlier, Guard},
            outcome::{WriteError, WriteOutcome},
        },
    },
};

/// Write mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WriteMode {
    /// Writes only the latest item; stream-fn puts the version item.
    #[default]
    Stream,
    /// Writes the latest item, then the version item.
    Inline,
    /// Writes both items in one transaction.
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

/// The text is neither `stream`, `inline` nor `transaction`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the write mode is \"stream\", \"inline\" or \"transaction\"")]
pub struct InvalidWriteMode;

/// Strategy for detecting duplicate requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Idempotency {
    /// The latest item holds at least this many of its last requests.
    Recent(Window),
    /// Every request has a marker with this retention.
    Ledger(Retention),
}

impl Default for Idempotency {
    fn default() -> Self {
        Self::Recent(Window::default())
    }
}

impl Idempotency {
    /// Returns the strategy with this name, `recent` or `ledger`.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidIdempotency`] for any other name.
    pub fn named(name: &str, window: Window, retention: Retention) -> Result<Self, InvalidIdempotency> {
        match name {
            "recent" => Ok(Self::Recent(window)),
            "ledger" => Ok(Self::Ledger(retention)),
            _ => Err(InvalidIdempotency),
        }
    }
}

/// The name is neither `recent` nor `ledger`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the idempotency is \"recent\" or \"ledger\"")]
pub struct InvalidIdempotency;

/// Options of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WriteOptions {
    /// Write mode.
    pub mode: WriteMode,
    /// Strategy for detecting duplicate requests.
    pub idempotency: Idempotency,
    /// `true` if an update that changes nothing creates no version. It requires a read.
    pub skip_unchanged: bool,
}

impl Store {
    /// Applies an update, which creates the next version of its entity.
    ///
    /// # Errors
    ///
    /// Returns [`WriteError`], see its variants.
    pub async fn write(&self, update: &Update, options: WriteOptions) -> Result<WriteOutcome, WriteError> {
        let window = match options.idempotency {
            Idempotency::Recent(window) if options.mode != WriteMode::Transaction => window,
            // Boxed, to keep the future small.
            _ => return Box::pin(self.write_transaction(update, options)).await,
        };
        if options.skip_unchanged
            && let Some(outcome) = Box::pin(self.unchanged(update)).await?
        {
            return Ok(outcome);
        }
        if options.mode == WriteMode::Inline {
            Box::pin(self.write_inline(update, window)).await
        } else {
            Box::pin(self.write_version(update, window)).await
        }
    }

    /// Returns the outcome of an update that changes nothing. If an earlier delivery of it created a version, it is a duplicate.
    async fn unchanged(&self, update: &Update) -> Result<Option<WriteOutcome>, WriteError> {
        let now = self.now();
        let mut stored = self.get(&update.entity, LATEST_KEY, true).await?;
        let is_unchanged = |stored: &Option<Item>| match stored {
            Some(stored) => unchanged(update, stored, now),
            None => Ok(None),
        };
        let guard = Guard::of(update, now);
        if is_unchanged(&stored)?.is_some() && !guard.is_complete_in(stored.as_ref()) {
            stored = match self.find_earlier_delivery(update, stored, guard).await? {
                Earlier::Applied(version) => return Ok(Some(WriteOutcome::Duplicate { version })),
                Earlier::NotApplied(newest) => newest,
            };
        }
        Ok(is_unchanged(&stored)?.map(|version| WriteOutcome::Unchanged { version }))
    }
}

/// Returns the latest version if the update would be applied and change nothing.
pub(crate) fn unchanged(update: &Update, stored: &Item, now: RecordedAt) -> Result<Option<Version>, WriteError> {
    let applies = stored.contains_key(names::LATEST) && decide(update, Some(stored))? == Decision::Apply;
    let changes_nothing = applies && is_unchanged(stored, &apply(update, Some(stored), &Stamp::At(now))?);
    Ok(changes_nothing.then(|| latest_of(stored)).transpose()?)
}
