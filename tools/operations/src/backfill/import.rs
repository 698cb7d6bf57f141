//! Backfill: makes existing items version 1 of an entity, concurrently with writers.
//!
//! An item of another table becomes an update that expects no version. If its entity has versions already, the first one shows
//! by its request id whether this item was imported before. An entity that another update created is a conflict if attributes
//! of the item are missing there, because the update named some attributes only. Attributes are compared by their names: a
//! value of the entity is newer. The conflict ends when the missing attributes are written.
//!
//! A latest item without `Latest` becomes version 1, on condition that it still has none. If there are versions already, it
//! becomes the highest one or the next one, as in a [`repair`](crate::latest::adopted).

use shared::{
    config::WriteOptions,
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
    counter::{self, WriteError, WriteOutcome},
    update::Update,
};

use crate::{
    backfill::mapping::{Mapping, REQUEST_PREFIX, Refusal},
    error::OperationError,
    read::paced::Paced,
    revision,
};

/// Source, target and options of a backfill.
pub(super) struct Backfill {
    /// Table that items are read from.
    pub source: Paced,
    /// Versioned table, which can be the same.
    pub target: Paced,
    /// Mapping of items to updates. Without it, only latest items without `Latest` are converted.
    pub mapping: Option<Mapping>,
    pub options: WriteOptions,
    /// `true` to write nothing.
    pub dry_run: bool,
}

/// Outcome of an item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ItemOutcome {
    /// It became version 1 of its entity.
    Written,
    /// An earlier run imported it, or its entity has all its attributes.
    AlreadyThere,
    /// The backfill does not apply to it.
    Skipped,
    /// It cannot become a version, or its entity has versions of other updates.
    Refused(Refusal),
}

impl Backfill {
    /// Writes the items of a page.
    pub(super) async fn page(&self, items: Vec<Item>) -> Result<Vec<(Item, ItemOutcome)>, OperationError> {
        let mut outcomes = Vec::new();
        for item in items {
            let outcome = self.item(&item).await?;
            outcomes.push((item, outcome));
        }
        Ok(outcomes)
    }

    async fn item(&self, item: &Item) -> Result<ItemOutcome, OperationError> {
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
        let update = match mapping.update(item) {
            Ok(update) => update,
            Err(why) => return Ok(ItemOutcome::Refused(why)),
        };
        let write = async |store: &Store| match self.dry_run {
            true => revision::preview(store, &update, self.options).await,
            false => counter::write(store, &update, self.options).await.map(Some),
        };
        match self.target.send(write).await {
            Ok(None | Some(WriteOutcome::Written { .. })) => Ok(ItemOutcome::Written),
            // The item can have changed since an earlier run: another update with the same request id.
            Ok(Some(WriteOutcome::Duplicate { .. })) | Err(WriteError::RequestIdReused { .. }) => {
                Ok(ItemOutcome::AlreadyThere)
            }
            Ok(Some(_)) => self.existing(mapping, item, &update).await,
            Err(WriteError::Uncounted { .. }) => Ok(ItemOutcome::Refused(Refusal::Uncounted)),
            Err(error) if error.kind() == ErrorKind::Rejected => Ok(ItemOutcome::Refused(Refusal::Rejected)),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the outcome of an item whose entity has versions: the request of the first one shows who created it. The latest
    /// item is read only if this was another update, or is not known.
    async fn existing(&self, mapping: &Mapping, item: &Item, update: &Update) -> Result<ItemOutcome, OperationError> {
        let imported = |first: &Item| match text(first, names::REQUEST_ID) {
            Some(id) if id == update.request_id.as_str() => Some(ItemOutcome::AlreadyThere),
            Some(id) if id.starts_with(REQUEST_PREFIX) => Some(ItemOutcome::Refused(Refusal::SameName)),
            _ => None,
        };
        let first = async |store: &Store| store.version_item(&update.entity, Version::FIRST, true).await;
        let first = self.target.send(first).await?;
        if let Some(outcome) = first.as_ref().and_then(imported) {
            return Ok(outcome);
        }
        let latest = self.target.get(&update.entity, LATEST_KEY).await?;
        // The first version item is not stored yet.
        let is_first = |latest: &&Item| latest_of(latest) == Ok(Version::FIRST);
        let first = first.as_ref().or_else(|| latest.as_ref().filter(is_first));
        if let Some(outcome) = first.and_then(imported) {
            return Ok(outcome);
        }
        Ok(match &latest {
            Some(latest) if !latest.contains_key(names::LATEST) => ItemOutcome::Refused(Refusal::Uncounted),
            Some(latest) if mapping.is_complete(item, latest) => ItemOutcome::AlreadyThere,
            _ if first.is_some() => ItemOutcome::Refused(Refusal::CreatedByUpdate),
            _ => ItemOutcome::Refused(Refusal::FirstVersionUnknown),
        })
    }
}
