//! Backfill: makes existing items version 1 of an entity, concurrently with writers.
//!
//! An item of another table becomes an update that expects no version. If its entity has versions already, the first one shows
//! by its request id whether this item was imported before. An entity that another update created is a conflict if attributes
//! of the item are missing there, because the update named some attributes only. Attributes are compared by their names: a
//! value of the entity is newer. The conflict ends when the missing attributes are written.

use shared::{
    config::{Idempotency, WriteOptions},
    domain::{
        Item,
        attributes::text,
        entity::is_reserved,
        keys::{ItemKind, LATEST_KEY, partition_key_of, sort_key_of},
        names,
        version::Version,
        version_item::latest_of,
    },
    dynamodb::{Store, client::error::ErrorKind},
};
use writer_fn::{
    counter::{
        self, WriteError, WriteOutcome, ledger::version_in_ledger, transaction::refusal, uncounted::counted_latest,
    },
    update::Update,
};

use super::{
    Backfill, ItemOutcome, Stop,
    mapping::{Mapping, REQUEST_PREFIX, Refusal},
};

impl Backfill {
    pub(crate) async fn item(&self, item: &Item) -> Result<ItemOutcome, Stop> {
        let digits = self.target.store.digits();
        if self.source.store.latest_table() == self.target.store.latest_table() {
            let kind = match (partition_key_of(item), sort_key_of(item)) {
                (Some(key), _) if is_reserved(key) => ItemKind::Metadata,
                (_, Some(key)) => digits.kind_of(key),
                _ => ItemKind::Other,
            };
            match kind {
                ItemKind::Latest => return self.adopt(item).await,
                ItemKind::Other if digits.padded_latest_key().as_deref() == sort_key_of(item) => {
                    return self.move_padded(item).await;
                }
                ItemKind::Other => {}
                _ => return Ok(ItemOutcome::Skipped),
            }
        }
        let Some(mapping) = &self.mapping else {
            return Ok(ItemOutcome::Skipped);
        };
        let update = mapping.update(item)?;
        let write = async |store: &Store| match self.dry_run {
            true => preview(store, &update, self.options).await,
            false => counter::write(store, &update, self.options).await.map(Some),
        };
        match self.target.send(write).await {
            Ok(None | Some(WriteOutcome::Written { .. })) => Ok(ItemOutcome::Written),
            // The item can have changed since an earlier run: another update with the same request id.
            Ok(Some(WriteOutcome::Duplicate { .. })) | Err(WriteError::RequestIdReused { .. }) => {
                Ok(ItemOutcome::AlreadyThere)
            }
            Ok(Some(_)) => self.existing(mapping, item, &update).await,
            Err(WriteError::CounterMissing { .. }) => Err(Refusal::Uncounted.into()),
            Err(error) if error.kind() == ErrorKind::Rejected => Err(Refusal::Rejected.into()),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the outcome of an item whose entity has versions: the request of the first one shows who created it. The latest
    /// item is read only if this was another update, or is not known.
    async fn existing(&self, mapping: &Mapping, item: &Item, update: &Update) -> Result<ItemOutcome, Stop> {
        let imported = |first: &Item| match text(first, names::REQUEST_ID) {
            Some(id) if id == update.request_id.as_str() => Some(Ok(ItemOutcome::AlreadyThere)),
            Some(id) if id.starts_with(REQUEST_PREFIX) => Some(Err(Refusal::SameName.into())),
            _ => None,
        };
        let first = async |store: &Store| store.version_item(&update.entity, Version::FIRST, true).await;
        let first = self.target.send(first).await?;
        if let Some(outcome) = first.as_ref().and_then(imported) {
            return outcome;
        }
        let latest = self.target.get(&update.entity, LATEST_KEY).await?;
        // The first version item is not stored yet.
        let is_first = |latest: &&Item| latest_of(latest) == Ok(Version::FIRST);
        let first = first.as_ref().or_else(|| latest.as_ref().filter(is_first));
        if let Some(outcome) = first.and_then(imported) {
            return outcome;
        }
        Err(match &latest {
            Some(latest) if !latest.contains_key(names::LATEST) => Refusal::Uncounted,
            Some(latest) if mapping.is_complete(item, latest) => return Ok(ItemOutcome::AlreadyThere),
            _ if first.is_some() => Refusal::CreatedByUpdate,
            _ => Refusal::FirstVersionUnknown,
        }
        .into())
    }
}

/// Returns the outcome that the write of an update would have now, `None` if it would be applied. `DynamoDB` can still reject
/// an item that is too large. History is not searched for an earlier delivery, so the update must not have a time of one.
async fn preview(store: &Store, update: &Update, options: WriteOptions) -> Result<Option<WriteOutcome>, WriteError> {
    let entity = &update.entity;
    let mut latest = store.get(entity, LATEST_KEY, true).await?;
    if !(latest.as_ref()).is_some_and(|latest| latest.contains_key(names::LATEST)) {
        latest = counted_latest(store, entity).await?.or(latest);
    }
    let refusal = refusal(store, update, latest.as_ref(), options)?;
    if matches!(options.idempotency, Idempotency::Ledger)
        && let Some(version) = version_in_ledger(store, update).await?
    {
        return Ok(Some(WriteOutcome::Duplicate { version }));
    }
    Ok(refusal)
}
