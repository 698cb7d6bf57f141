//! Backfill: makes existing items version 1 of an entity, concurrently with writers.
//!
//! An item of another table becomes an update that expects no version, so that versions of other writers take precedence. A
//! latest item without `Latest` becomes version 1, on condition that it still has none. If there are versions already, it
//! becomes the highest one or the next one, as in a [`repair`](crate::domain::repair::adopted).

use aws_sdk_dynamodb::{
    operation::update_item::{UpdateItemError, builders::UpdateItemInputBuilder},
    types::ReturnValue,
};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::{
    domain::{
        Item,
        attributes::text,
        backfill::{Mapping, REQUEST_PREFIX, Refusal},
        entity::{EntityId, is_reserved},
        keys::{ItemKind, LATEST_KEY, partition_key_of, sort_key_of},
        names,
        recorded_at::RecordedAt,
        repair::{self, Step},
        request_id::RequestId,
        update::Update,
        version::Version,
        version_item::{InvalidImage, VersionItem, latest_of},
    },
    dynamodb::{
        Store,
        client::error::{ErrorKind, ServiceError},
        maintain::rate_limit::{RateLimiter, Throttling},
        n,
        put::put_version::{PutError, PutOutcome},
        read::{query_items::Cursor, scan_segment::Segment},
        s,
        write::{
            modes::{WriteMode, WriteOptions},
            outcome::{WriteError, WriteOutcome},
        },
    },
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
    /// Its entity already has versions, from an earlier run or another writer.
    AlreadyThere,
    /// The backfill does not apply to it.
    Skipped,
    /// It cannot become a version.
    Refused(Refusal),
}

/// Progress of the backfill of a segment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Progress {
    /// Last item of the last completed page.
    after: Option<Item>,
    /// `true` if the whole segment was read.
    done: bool,
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
    /// Items whose entity already has versions.
    pub already_there: u64,
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
        self.skipped += other.skipped;
        self.refused += other.refused;
    }
}

impl Backfill {
    /// Processes one page of a segment, and returns the refused items with the reasons. `None` at the end.
    ///
    /// # Errors
    ///
    /// Returns [`BackfillError`] if a request fails.
    pub async fn step(
        &self,
        segment: Segment,
        progress: &mut Progress,
    ) -> Result<Option<Vec<(Item, Refusal)>>, BackfillError> {
        if progress.done {
            return Ok(None);
        }
        let start: Option<Cursor> = progress.after.clone().map(Cursor::from);
        let limit = self.limiter.page_limit();
        let page = self.limiter.run(async || {
            let start = start.clone();
            self.source.scan_segment(segment, start, limit, true).await
        });
        let (items, next) = page.await?;
        let mut refused = Vec::new();
        // A page is complete when all its items are, so that a continued run does not skip one.
        let mut counts = progress.counts;
        for item in items {
            counts.items += 1;
            match self.item(&item).await? {
                ItemOutcome::Written => counts.written += 1,
                ItemOutcome::AlreadyThere => counts.already_there += 1,
                ItemOutcome::Skipped => counts.skipped += 1,
                ItemOutcome::Refused(why) => {
                    counts.refused += 1;
                    refused.push((item, why));
                }
            }
        }
        progress.counts = counts;
        progress.done = next.is_none();
        progress.after = next.map(Item::from);
        Ok(Some(refused))
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
                (_, Some(key)) => self.target.digits.kind_of(key),
                _ => ItemKind::Other,
            };
            match kind {
                ItemKind::Latest => return self.adopt(item).await,
                ItemKind::Other if self.target.digits.padded_latest_key().as_deref() == sort_key_of(item) => {
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
        if self.dry_run {
            let get = self
                .limiter
                .run(async || self.target.get(&update.entity, LATEST_KEY, true).await);
            return Ok(if get.await?.is_some() {
                ItemOutcome::AlreadyThere
            } else {
                ItemOutcome::Written
            });
        }
        let written = self
            .limiter
            .run(async || self.target.write(&update, self.options).await);
        match written.await {
            Ok(WriteOutcome::Written { .. }) => Ok(ItemOutcome::Written),
            Ok(WriteOutcome::Conflict { .. }) => self.conflict(&update).await,
            // The item has changed since an earlier run: another update with the same request id.
            Ok(_) | Err(WriteError::RequestIdReused { .. }) => Ok(ItemOutcome::AlreadyThere),
            Err(WriteError::Uncounted { .. }) => Ok(ItemOutcome::Refused(Refusal::Uncounted)),
            Err(error) if error.kind() == ErrorKind::Rejected => Ok(ItemOutcome::Refused(Refusal::Rejected)),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the outcome of an item whose entity has versions of the application, or of another item with the same name.
    async fn conflict(&self, update: &Update) -> Result<ItemOutcome, BackfillError> {
        let first = self.limiter.run(async || {
            let first = self.target.version_item(&update.entity, Version::FIRST, true).await?;
            if first.is_some() {
                return Ok(first);
            }
            // The version item is not stored yet.
            self.target.get(&update.entity, LATEST_KEY, true).await
        });
        let first = first.await?;
        let made_by = first.as_ref().and_then(|first| text(first, names::REQUEST_ID));
        let by_another = made_by.is_some_and(|id| id.starts_with(REQUEST_PREFIX) && id != update.request_id.as_str());
        Ok(if by_another {
            ItemOutcome::Refused(Refusal::SameName)
        } else {
            ItemOutcome::AlreadyThere
        })
    }

    fn is_same_table(&self) -> bool {
        self.source.table == self.target.table
    }

    /// Sets `Latest` of a latest item that has none.
    async fn adopt(&self, item: &Item) -> Result<ItemOutcome, BackfillError> {
        let Some(id) = partition_key_of(item) else {
            return Ok(ItemOutcome::Skipped);
        };
        let request_id = self.mapping_of_own_keys().request_id(item);
        let (entity, request_id) = match (EntityId::new(id), request_id) {
            (Ok(entity), Ok(request_id)) => (entity, request_id),
            (Err(why), _) => return Ok(ItemOutcome::Refused(why.into())),
            (_, Err(why)) => return Ok(ItemOutcome::Refused(why)),
        };
        if item.contains_key(names::LATEST) {
            // An interrupted run may have set `Latest`, but not put the version.
            let is_ours = text(item, names::REQUEST_ID) == Some(request_id.as_str());
            if is_ours && latest_of(item) == Ok(Version::FIRST) && !self.dry_run {
                self.put_version_of(item.clone()).await?;
            }
            return Ok(ItemOutcome::AlreadyThere);
        }
        let highest = self.highest(&entity).await?;
        // A latest item that lost its counter has them too.
        let is_reserved = |name: &&str| highest.is_none() || *name != names::RECENT_REQUESTS;
        let reserved = [names::RECENT_REQUESTS, names::TTL, names::PINNED];
        let mut reserved = reserved.into_iter().filter(is_reserved);
        if let Some(name) = reserved.find(|name| item.contains_key(*name)) {
            return Ok(ItemOutcome::Refused(Refusal::Reserved { name }));
        }
        if self.dry_run {
            return Ok(ItemOutcome::Written);
        }
        let adopted = match repair::adopted(item, highest.as_ref(), self.target.digits) {
            _ if highest.is_none() => {
                let adopted = self.limiter.run(async || self.target.adopt(&entity, &request_id).await);
                adopted.await?
            }
            Some(to) => {
                let raised = self
                    .limiter
                    .run(async || self.target.raise_latest(&entity, None, to).await);
                raised.await?
            }
            None => None,
        };
        let Some(image) = adopted else {
            return Ok(ItemOutcome::AlreadyThere);
        };
        self.put_version_of(image).await?;
        Ok(ItemOutcome::Written)
    }

    /// Moves a latest item from the padded key of version 0 to `v0`.
    async fn move_padded(&self, item: &Item) -> Result<ItemOutcome, BackfillError> {
        let Some(entity) = partition_key_of(item).and_then(|id| EntityId::new(id).ok()) else {
            return Ok(ItemOutcome::Skipped);
        };
        let latest = self
            .limiter
            .run(async || self.target.get(&entity, LATEST_KEY, true).await);
        if latest.await?.is_some() {
            return Ok(ItemOutcome::AlreadyThere);
        }
        let highest = self.highest(&entity).await?;
        let Some(Step::Move { padded, latest, .. }) = repair::move_padded(item, highest.as_ref(), self.target.digits)
        else {
            return Ok(ItemOutcome::Skipped);
        };
        if self.dry_run {
            return Ok(ItemOutcome::Written);
        }
        let moved = self
            .limiter
            .run(async || self.target.move_latest(&padded, &latest).await);
        if !moved.await? {
            return Ok(ItemOutcome::AlreadyThere);
        }
        self.put_version_of(latest).await?;
        Ok(ItemOutcome::Written)
    }

    async fn highest(&self, entity: &EntityId) -> Result<Option<(Version, Item)>, ServiceError> {
        self.limiter
            .run(async || self.target.newest_in_history(entity, true).await)
            .await
    }

    /// Puts the version of a latest item, unless stream-fn does.
    async fn put_version_of(&self, image: Item) -> Result<(), BackfillError> {
        if self.options.mode == WriteMode::Stream {
            return Ok(());
        }
        let item = VersionItem::from_image(image, self.target.digits)?;
        let put = self.limiter.run(async || self.target.put_version(&item).await);
        let version = item.version();
        match put.await? {
            PutOutcome::Conflict => Err(WriteError::Taken { version }.into()),
            PutOutcome::Recorded | PutOutcome::AlreadyRecorded => Ok(()),
        }
    }

    fn mapping_of_own_keys(&self) -> Mapping {
        Mapping {
            table: self.target.table.clone(),
            keys: vec![names::PK.to_owned(), names::SK.to_owned()],
            id: crate::domain::backfill::Template::attribute(names::PK),
            rename: std::collections::BTreeMap::new(),
            ordering: crate::domain::update::Ordering::Arrival,
        }
    }
}

impl Store {
    /// Sets `Latest` of an existing latest item to 1, and returns the item, `None` if it has `Latest`.
    async fn adopt(&self, entity: &EntityId, request_id: &RequestId) -> Result<Option<Item>, ServiceError> {
        let request = request(entity, request_id, self.now(), &self.table);
        match request.send_with(&self.client).await {
            Ok(output) => Ok(Some(Item::from(output.attributes.unwrap_or_default()))),
            Err(error) => match error.as_service_error() {
                Some(UpdateItemError::ConditionalCheckFailedException(_)) => Ok(None),
                _ => Err(ServiceError::new("UpdateItem", &error)),
            },
        }
    }
}

/// Builds the request that sets `Latest` to 1. An existing request id is kept.
pub fn request(entity: &EntityId, request_id: &RequestId, now: RecordedAt, table: &str) -> UpdateItemInputBuilder {
    UpdateItemInputBuilder::default()
        .table_name(table)
        .key(names::PK, s(entity.as_str()))
        .key(names::SK, s(LATEST_KEY))
        .update_expression(
            "SET #latest = :one, #version = :one, #recorded = :recorded, \
             #request = if_not_exists(#request, :request) REMOVE #tick",
        )
        .condition_expression("attribute_exists(#pk) AND attribute_not_exists(#latest) AND attribute_not_exists(#ttl)")
        .expression_attribute_names("#pk", names::PK)
        .expression_attribute_names("#latest", names::LATEST)
        .expression_attribute_names("#version", names::RECORDED_VERSION)
        .expression_attribute_names("#recorded", names::RECORDED_AT)
        .expression_attribute_names("#tick", names::RECORDED_TICK)
        .expression_attribute_names("#request", names::REQUEST_ID)
        .expression_attribute_names("#ttl", names::TTL)
        .expression_attribute_values(":one", n(1))
        .expression_attribute_values(":recorded", s(now.to_string()))
        .expression_attribute_values(":request", s(request_id.as_str()))
        .return_values(ReturnValue::AllNew)
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
