//! The counter: the next version of the latest item.
//!
//! Three write modes create the next version, with one interface:
//!
//! | mode | requests | write units, items up to 1 KB |
//! |---|---|---|
//! | `stream` | `UpdateItem` of v0; stream-fn puts vN | 1, and 1 by the stream |
//! | `inline` | `UpdateItem` of v0, then `PutItem` of vN | 2 |
//! | `transaction` | `GetItem` of v0, then `TransactWriteItems` of both | 4 |
//!
//! A [change set](set) is one transaction in every mode: `BatchGetItem` of all latest items, then `TransactWriteItems`.
//!
//! All modes create the same items and have the same outcomes. With a ledger, every mode writes the latest item in a
//! transaction with the request's marker: `GetItem`, then `TransactWriteItems`.

pub mod checked;
mod completion;
pub mod decision;
pub mod earlier_delivery;
pub mod ended_state;
pub mod form;
pub mod ledger;
pub mod lifetime;
pub mod order;
mod outcome;
mod race;
pub mod recent_requests;
pub mod rules;
pub mod set;
pub mod stamp;
pub mod transaction;
pub mod uncounted;
mod update_item;

use shared::{
    config::{Idempotency, WriteMode, WriteOptions},
    domain::{Item, keys::LATEST_KEY},
    dynamodb::Store,
};

pub use outcome::{WriteError, WriteOutcome};

use crate::{
    counter::{
        checked::Checked,
        decision::unchanged_version,
        earlier_delivery::{EarlierDeliveries, Search, find_earlier_delivery},
    },
    update::Update,
};

/// Applies an update, which creates the next version of its entity.
///
/// # Errors
///
/// Returns [`WriteError`], see its variants.
pub async fn write(store: &Store, update: &Update, options: WriteOptions) -> Result<WriteOutcome, WriteError> {
    write_after(store, update, options, &mut Checked::default()).await
}

/// Applies an update as [`write()`] does, with what the process knows about the requests of its entity, and adds to it.
///
/// # Errors
///
/// Returns [`WriteError`], see its variants.
pub async fn write_after(
    store: &Store,
    update: &Update,
    options: WriteOptions,
    known: &mut Checked,
) -> Result<WriteOutcome, WriteError> {
    let window = match options.idempotency {
        Idempotency::Recent(window) if options.mode != WriteMode::Transaction => window,
        // Boxed, to keep the future small.
        _ => return Box::pin(transaction::write(store, update, options)).await,
    };
    if options.skip_unchanged
        && let Some(outcome) = Box::pin(skipped(store, update, known)).await?
    {
        return Ok(outcome);
    }
    Box::pin(update_item::write(store, update, window, options.mode, known)).await
}

/// Returns the outcome of an update that changes nothing. If an earlier delivery of it created a version, it is a duplicate.
async fn skipped(store: &Store, update: &Update, known: &mut Checked) -> Result<Option<WriteOutcome>, WriteError> {
    let now = store.now();
    let mut stored = store.get(&update.entity, LATEST_KEY, true).await?;
    let is_unchanged = |stored: &Option<Item>| match stored {
        Some(stored) => unchanged_version(update, stored, now),
        None => Ok(None),
    };
    let mut earlier = EarlierDeliveries::of(update, now);
    known.add_to(&mut earlier, update);
    known.compare(&mut earlier, stored.as_ref());
    if is_unchanged(&stored)?.is_some() && !earlier.is_complete_in(stored.as_ref()) {
        stored = match find_earlier_delivery(store, update, stored, &earlier, known).await? {
            Search::Applied(version) => return Ok(Some(WriteOutcome::Duplicate { version })),
            Search::NotApplied(newest) => newest,
        };
    }
    Ok(is_unchanged(&stored)?.map(|version| WriteOutcome::Unchanged { version }))
}

#[cfg(test)]
mod test_requests;
