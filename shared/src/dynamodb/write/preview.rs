//! Preview of a write: decides an update as [`Store::write`] does, and writes nothing.

use crate::{
    domain::{keys::LATEST_KEY, names, update::Update},
    dynamodb::{
        Store,
        write::{
            modes::{Idempotency, WriteOptions},
            outcome::{WriteError, WriteOutcome},
        },
    },
};

impl Store {
    /// Returns the outcome that the write of an update would have now, `None` if it would be applied. `DynamoDB` can still reject
    /// an item that is too large. History is not searched for an earlier delivery, so the update must not have a time of one.
    ///
    /// # Errors
    ///
    /// Returns the [`WriteError`] that the write would have, and [`WriteError::Service`] if a request fails.
    pub async fn preview(&self, update: &Update, options: WriteOptions) -> Result<Option<WriteOutcome>, WriteError> {
        let entity = &update.entity;
        let mut latest = self.get(entity, LATEST_KEY, true).await?;
        if !(latest.as_ref()).is_some_and(|latest| latest.contains_key(names::LATEST)) {
            latest = self.counted_latest(entity).await?.or(latest);
        }
        let refusal = self.refusal(update, latest.as_ref(), options)?;
        if matches!(options.idempotency, Idempotency::Ledger(_))
            && let Some(version) = self.version_in_ledger(update).await?
        {
            return Ok(Some(WriteOutcome::Duplicate { version }));
        }
        Ok(refusal)
    }
}
