//! Updates of entities: the names of the counter from one place, and short forms of updates, options and outcomes.

use std::sync::atomic::{self, AtomicU64};

use serde_json::Value;
use shared::{
    domain::{entity::EntityId, keys::LATEST_KEY, version::Version, version_item::VersionItem},
    dynamodb::{Store, put::put_version::PutOutcome},
};
use writer_fn::counter;

pub use operations::{
    metadata,
    revision::{self, ChangeOptions},
};
pub use shared::{
    config::{Idempotency, Ordering, WriteMode, WriteOptions},
    domain::change::Change,
};
pub use writer_fn::{
    counter::{WriteError, WriteOutcome},
    update::{MAX_ATTRIBUTES, Update},
};

pub const MODES: [WriteMode; 3] = [WriteMode::Stream, WriteMode::Inline, WriteMode::Transaction];

pub fn mode(mode: WriteMode) -> WriteOptions {
    WriteOptions {
        mode,
        ..WriteOptions::default()
    }
}

/// Returns options with a ledger.
pub fn ledger(write_mode: WriteMode) -> WriteOptions {
    WriteOptions {
        idempotency: Idempotency::Ledger,
        ..mode(write_mode)
    }
}

/// Returns each write mode with each idempotency.
pub fn settings() -> Vec<WriteOptions> {
    [MODES.map(mode), MODES.map(ledger)].concat()
}

pub fn version(number: u64) -> Version {
    Version::new(number).unwrap()
}

pub fn written(number: u64) -> WriteOutcome {
    let version = version(number);
    WriteOutcome::Written { version }
}

pub fn duplicate(number: u64) -> WriteOutcome {
    let version = version(number);
    WriteOutcome::Duplicate { version }
}

/// Parses an update, with a unique request id unless it has one.
pub fn update(json: Value) -> Update {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let id = NEXT.fetch_add(1, atomic::Ordering::Relaxed);
    parse(json, &format!("request-{id}"))
}

/// Parses an update with this request id, unless it has one.
pub fn parse(json: Value, request: &str) -> Update {
    Update::parse(json, request, Ordering::Arrival).unwrap()
}

/// Applies an update. In the mode `stream`, it puts no version item.
pub async fn apply(store: &Store, update: &Update, options: WriteOptions) -> Result<WriteOutcome, WriteError> {
    counter::write(store, update, options).await
}

/// Applies an update. In the mode `stream`, it also puts the version item, as stream-fn does.
pub async fn record(store: &Store, update: &Update, options: WriteOptions) -> Result<WriteOutcome, WriteError> {
    let outcome = apply(store, update, options).await?;
    if options.mode == WriteMode::Stream
        && let WriteOutcome::Written { .. } = outcome
    {
        put_version(store, &update.entity).await;
    }
    Ok(outcome)
}

/// Writes an update as [`record`] does, with the text of an error.
pub async fn write(store: &Store, update: &Update, options: WriteOptions) -> Result<WriteOutcome, String> {
    let written = record(store, update, options).await;
    written.map_err(|error| shared::logging::chain(&error))
}

/// Puts the version item of the latest item, as stream-fn does.
pub async fn put_version(store: &Store, entity: &EntityId) -> PutOutcome {
    let latest = store.get(entity, LATEST_KEY, true).await;
    let version = VersionItem::from_image(latest.unwrap().unwrap(), store.digits()).unwrap();
    store.put_version(&version).await.unwrap()
}
