//! Backfill: makes existing items version 1 of an entity, concurrently with writers.
//!
//! An item of another table becomes an update that expects no version. If its entity has versions already, the first one shows
//! by its request id whether this item was imported before. An entity that another update created is a conflict if attributes
//! of the item are missing there, because the update named some attributes only. Attributes are compared by their names: a
//! value of the entity is newer. The conflict ends when the missing attributes are written.
//!
//! A latest item without `Latest` becomes version 1, on condition that it still has none. If there are versions already, it
//! becomes the highest one or the next one, as in a [`repair`](crate::latest::repair::adopted).

use serde::{Deserialize, Serialize};
use shared::{
    config::WriteOptions,
    domain::{
        Item,
        attributes::text,
        entity::is_reserved,
        keys::{ItemKind, LATEST_KEY, partition_key_of, sort_key_of},
        names,
        version::Version,
        version_item::{InvalidImage, latest_of},
    },
    dynamodb::{
        Store,
        client::error::{ErrorKind, ServiceError},
        put::put_version::PutError,
    },
};
use thiserror::Error;
use writer_fn::{
    counter::{self, WriteError, WriteOutcome},
    update::Update,
};

use crate::{
    backfill::mapping::{Mapping, REQUEST_PREFIX, Refusal},
    rate_limit::{RateLimiter, Throttling},
    revision,
};

/// Source, target and options of a backfill.
#[derive(Debug, Clone)]
pub struct Backfill {
    /// Table that items are read from.
    pub source: Store,
    /// Versioned table, which can be the same.
    pub target: Store,
    /// Mapping of items to updates. Without it, only latest items without `Latest` are converted.
    pub mapping: Option<Mapping>,
    /// Options of the writes.
    pub options: WriteOptions,
    /// Rate limit.
    pub limiter: RateLimiter,
    /// `true` to write nothing.
    pub dry_run: bool,
}

/// Outcome of an item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ItemOutcome {
    /// It became version 1 of its entity.
    Written,
    /// An earlier run imported it, or its entity has all its attributes.
    AlreadyThere,
    /// The backfill does not apply to it.
    Skipped,
    /// It cannot become a version, or its entity has versions of other updates.
    Refused(Refusal),
}

/// Items that were not imported, each with the reason.
pub type Refused = Vec<(Item, Refusal)>;

/// Progress of the backfill of a segment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Progress {
    /// Last item of the last completed page.
    pub(crate) after: Option<Item>,
    /// `true` if the whole segment was read.
    pub(crate) done: bool,
    /// Counts so far.
    pub counts: Counts,
}

/// Counts of a backfill.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Counts {
    /// Items read.
    pub items: u64,
    /// Items that became version 1.
    pub written: u64,
    /// Items that an earlier run imported, or whose entity has all their attributes.
    pub already_there: u64,
    /// Items whose entity was created by another update, or may have been, and lacks attributes.
    #[serde(default)]
    pub conflicts: u64,
    /// Items to which the backfill does not apply.
    pub skipped: u64,
    /// Items that cannot become a version.
    pub refused: u64,
}

impl Counts {
    /// Adds other counts.
    pub fn merge(&mut self, other: &Self) {
        self.items += other.items;
        self.written += other.written;
        self.already_there += other.already_there;
        self.conflicts += other.conflicts;
        self.skipped += other.skipped;
        self.refused += other.refused;
    }
}

impl Backfill {
    /// Writes the items of a page, and returns the refused ones with the reasons.
    pub(super) async fn page(&self, items: Vec<Item>, counts: &mut Counts) -> Result<Refused, BackfillError> {
        let mut refused = Vec::new();
        for item in items {
            match self.item(&item).await? {
                ItemOutcome::Written => counts.written += 1,
                ItemOutcome::AlreadyThere => counts.already_there += 1,
                ItemOutcome::Skipped => counts.skipped += 1,
                ItemOutcome::Refused(why) => {
                    match why.is_conflict() {
                        true => counts.conflicts += 1,
                        false => counts.refused += 1,
                    }
                    refused.push((item, why));
                }
            }
        }
        Ok(refused)
    }

    /// Processes one item.
    ///
    /// # Errors
    ///
    /// Returns [`BackfillError`] if a request fails.
    pub async fn item(&self, item: &Item) -> Result<ItemOutcome, BackfillError> {
        if self.is_same_table() {
            let kind = match (partition_key_of(item), sort_key_of(item)) {
                (Some(key), _) if is_reserved(key) => ItemKind::Metadata,
                (_, Some(key)) => self.target.digits().kind_of(key),
                _ => ItemKind::Other,
            };
            match kind {
                ItemKind::Latest => return self.adopt(item).await,
                ItemKind::Other if self.target.digits().padded_latest_key().as_deref() == sort_key_of(item) => {
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
        let written = self.limiter.run(async || match self.dry_run {
            true => revision::preview(&self.target, &update, self.options).await,
            false => counter::write(&self.target, &update, self.options).await.map(Some),
        });
        match written.await {
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
    async fn existing(&self, mapping: &Mapping, item: &Item, update: &Update) -> Result<ItemOutcome, BackfillError> {
        let imported = |first: &Item| match text(first, names::REQUEST_ID) {
            Some(id) if id == update.request_id.as_str() => Some(ItemOutcome::AlreadyThere),
            Some(id) if id.starts_with(REQUEST_PREFIX) => Some(ItemOutcome::Refused(Refusal::SameName)),
            _ => None,
        };
        let first = self
            .limiter
            .run(async || self.target.version_item(&update.entity, Version::FIRST, true).await);
        let first = first.await?;
        if let Some(outcome) = first.as_ref().and_then(imported) {
            return Ok(outcome);
        }
        let latest = self
            .limiter
            .run(async || self.target.get(&update.entity, LATEST_KEY, true).await);
        let latest = latest.await?;
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

    fn is_same_table(&self) -> bool {
        self.source.latest_table() == self.target.latest_table()
    }
}

impl Throttling for PutError {
    fn is_throttled(&self) -> bool {
        self.0.is_throttled()
    }
}

/// Reason why a backfill stopped.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BackfillError {
    /// A request failed.
    #[error(transparent)]
    Service(#[from] ServiceError),
    /// A version could not be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// A version could not be put.
    #[error(transparent)]
    Record(#[from] PutError),
    /// The item has no valid version, although `Latest` was set.
    #[error(transparent)]
    Image(#[from] InvalidImage),
}
