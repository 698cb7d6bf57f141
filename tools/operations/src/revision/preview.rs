//! Preview of a write: decides an update as [`write`](writer_fn::counter::write) does, and writes nothing.

use shared::{
    config::{Idempotency, WriteOptions},
    domain::{keys::LATEST_KEY, names},
    dynamodb::Store,
};
use writer_fn::{
    counter::{WriteError, WriteOutcome, ledger::version_in_ledger, transaction::refusal, uncounted::counted_latest},
    update::Update,
};

/// Returns the outcome that the write of an update would have now, `None` if it would be applied. `DynamoDB` can still reject
/// an item that is too large. History is not searched for an earlier delivery, so the update must not have a time of one.
///
/// # Errors
///
/// Returns the [`WriteError`] that the write would have, and [`WriteError::Service`] if a request fails.
pub async fn preview(
    store: &Store,
    update: &Update,
    options: WriteOptions,
) -> Result<Option<WriteOutcome>, WriteError> {
    let entity = &update.entity;
    let mut latest = store.get(entity, LATEST_KEY, true).await?;
    if !(latest.as_ref()).is_some_and(|latest| latest.contains_key(names::LATEST)) {
        latest = counted_latest(store, entity).await?.or(latest);
    }
    let refusal = refusal(store, update, latest.as_ref(), options)?;
    if matches!(options.idempotency, Idempotency::Ledger(_))
        && let Some(version) = version_in_ledger(store, update).await?
    {
        return Ok(Some(WriteOutcome::Duplicate { version }));
    }
    Ok(refusal)
}
