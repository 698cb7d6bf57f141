//! Entities of one segment of a table: `Scan`, page by page. Each entity is a summary of its items, so that memory does not
//! grow with their size. A scan can continue after the last entity of an earlier one.
//!
//! | tables | scanned | read by key, for the entities of a page |
//! |---|---|---|
//! | one | the table | |
//! | history in its own table | 1. history | latest items |
//! | | 2. latest items | their version; entities with a version in history were part of the first scan |
//! | | 2. latest items | all items, of entities with a latest item, and of those that have nothing in history |
//! | history of an attached table | history | |
//!
//! Two tables do not return their partitions in the same order, so that their scans cannot be merged.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::{
    audit::{attached_history::History, collection::Collection},
    prune::plan::Seen,
    rate_limit::RateLimiter,
    read::versions_in_history::versions_in_history,
    segments::scan::{Segment, scan_segment},
};
use shared::{
    domain::{
        Item, attached,
        entity::EntityId,
        keys::{LATEST_KEY, VersionDigits, partition_key_of, sort_key_of},
        names,
        version::Version,
        version_set::VersionSet,
    },
    dynamodb::{
        Store,
        client::error::ServiceError,
        read::{batch_get_items::MAX_KEYS, query_items::Cursor},
        s,
    },
};

/// Summary of an entity's items.
pub trait Summary: Default {
    /// Adds one of the entity's items, in any order.
    fn add(&mut self, item: Item, digits: VersionDigits);

    /// Adds an item of the history of an attached table, in the order of the sort keys.
    fn add_attached(&mut self, item: Item) {
        self.add(item, attached::digits());
    }

    /// Returns the version number of the latest item, `None` without a valid one.
    fn latest_version(&self) -> Option<Version>;

    /// Returns `true` if there is a latest item, a version, or another item of history.
    fn is_entity(&self) -> bool;

    /// Returns the versions that were added.
    fn versions(&self) -> &VersionSet;
}

impl Summary for Collection {
    fn add(&mut self, item: Item, digits: VersionDigits) {
        Self::add(self, item, digits);
    }

    fn latest_version(&self) -> Option<Version> {
        Self::latest_version(self)?.ok()
    }

    fn is_entity(&self) -> bool {
        Self::is_entity(self)
    }

    fn versions(&self) -> &VersionSet {
        Self::versions(self)
    }
}

impl Summary for Seen {
    fn add(&mut self, item: Item, digits: VersionDigits) {
        Self::add(self, item, digits);
    }

    fn add_attached(&mut self, item: Item) {
        Self::add_attached(self, item);
    }

    fn latest_version(&self) -> Option<Version> {
        self.collection().latest_version()?.ok()
    }

    fn is_entity(&self) -> bool {
        self.collection().is_entity()
    }

    fn versions(&self) -> &VersionSet {
        self.collection().versions()
    }
}

impl Summary for History {
    fn add(&mut self, item: Item, _: VersionDigits) {
        Self::add(self, item);
    }

    /// An attached table has no latest items.
    fn latest_version(&self) -> Option<Version> {
        None
    }

    fn is_entity(&self) -> bool {
        Self::is_entity(self)
    }

    fn versions(&self) -> &VersionSet {
        Self::versions(self)
    }
}

/// Key of an item, in the table that is being scanned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ItemKey {
    /// `true` in the second of two scans, that of latest items.
    #[serde(rename = "Latest", default, skip_serializing_if = "std::ops::Not::not")]
    is_latest: bool,
    #[serde(rename = "PK")]
    partition_key: String,
    #[serde(rename = "SK")]
    sort_key: String,
}

impl ItemKey {
    fn of(item: &Item, is_latest: bool) -> Option<Self> {
        Some(Self {
            is_latest,
            partition_key: partition_key_of(item)?.to_owned(),
            sort_key: sort_key_of(item)?.to_owned(),
        })
    }

    fn cursor(&self) -> Cursor {
        Cursor::from([
            (names::PK.to_owned(), s(&self.partition_key)),
            (names::SK.to_owned(), s(&self.sort_key)),
        ])
    }
}

/// Entity whose items were all read, with eventually consistent reads.
pub struct SeenEntity<S> {
    /// Entity.
    pub entity: EntityId,
    /// Summary of its items, empty if they were part of an earlier scan.
    pub summary: S,
    /// Number of items that were scanned.
    pub items: u64,
    /// Key of its last scanned item, after which a later scan can continue.
    pub last: ItemKey,
}

/// Scan of a segment.
pub struct SegmentEntities<S> {
    store: Store,
    limiter: RateLimiter,
    segment: Segment,
    /// `true` in the second of two scans, that of latest items.
    is_latest: bool,
    cursor: Option<Cursor>,
    /// Entity whose items are being read.
    current: Option<SeenEntity<S>>,
    is_read: bool,
}

impl<S: Summary> SegmentEntities<S> {
    /// Starts a scan, or continues after the last entity of an earlier one.
    pub fn new(store: Store, limiter: RateLimiter, segment: Segment, after: Option<&ItemKey>) -> Self {
        Self {
            store,
            limiter,
            segment,
            is_latest: after.is_some_and(|after| after.is_latest),
            cursor: after.map(ItemKey::cursor),
            current: None,
            is_read: false,
        }
    }

    /// Returns `true` if the whole segment was read.
    pub fn is_read(&self) -> bool {
        self.is_read
    }

    /// Reads the next page. Returns the entities that are now complete; there can be none.
    ///
    /// # Errors
    ///
    /// Returns [`ServiceError`] if a request fails.
    pub async fn next_page(&mut self) -> Result<Vec<SeenEntity<S>>, ServiceError> {
        let was_latest = self.is_latest;
        let complete = self.page().await?;
        // At the end of history, the next table follows at once: each page makes progress, so that a run that is killed after each
        // page comes to an end.
        match complete.is_empty() && self.is_latest != was_latest {
            true => self.page().await,
            false => Ok(complete),
        }
    }

    async fn page(&mut self) -> Result<Vec<SeenEntity<S>>, ServiceError> {
        let limit = self.limiter.page_limit();
        let table = match self.is_latest {
            true => self.store.latest_table(),
            false => self.store.history_table(),
        };
        let page = self
            .limiter
            .run(async || scan_segment(&self.store, table, self.segment, self.cursor.clone(), limit, false).await);
        let (items, next) = page.await?;
        let mut complete = Vec::new();
        for item in items {
            if let Some(key) = ItemKey::of(&item, self.is_latest) {
                complete.extend(self.add(key, item));
            }
        }
        if next.is_none() {
            complete.extend(self.current.take());
        }
        let has_latest_items = self.store.has_own_history() && self.store.attached_table().is_none();
        if has_latest_items {
            for entities in complete.chunks_mut(MAX_KEYS) {
                // Boxed: only one layout needs these large futures.
                match self.is_latest {
                    true => Box::pin(self.add_history(entities)).await?,
                    false => Box::pin(self.add_latest_items(entities)).await?,
                }
            }
        }
        match (&next, has_latest_items && !self.is_latest) {
            (None, true) => self.is_latest = true,
            (None, false) => self.is_read = true,
            _ => {}
        }
        self.cursor = next;
        Ok(complete)
    }

    /// Adds an item, and returns the entity before it if that is complete: the items of one entity are adjacent in a scan.
    fn add(&mut self, key: ItemKey, item: Item) -> Option<SeenEntity<S>> {
        let add = |summary: &mut S, item| match self.store.attached_table() {
            Some(_) => summary.add_attached(item),
            None => summary.add(item, self.store.digits()),
        };
        if let Some(current) = &mut self.current
            && current.entity.as_str() == key.partition_key
        {
            add(&mut current.summary, item);
            current.items += 1;
            current.last = key;
            return None;
        }
        let complete = self.current.take();
        // Only the table's own settings have a partition key that is not an entity.
        if let Ok(entity) = EntityId::new(key.partition_key.clone()) {
            let mut summary = S::default();
            add(&mut summary, item);
            self.current = Some(SeenEntity {
                entity,
                summary,
                items: 1,
                last: key,
            });
        }
        complete
    }

    /// Adds the latest items of entities that were found in history.
    async fn add_latest_items(&self, entities: &mut [SeenEntity<S>]) -> Result<(), ServiceError> {
        let keys = entities.iter().map(|seen| (&seen.entity, LATEST_KEY));
        let latest = self
            .limiter
            .run(async || self.store.batch_get_keys(keys.clone(), false).await);
        let mut latest = by_entity(latest.await?);
        for seen in entities {
            if let Some(item) = latest.remove(seen.entity.as_str()) {
                seen.summary.add(item, self.store.digits());
            }
        }
        Ok(())
    }

    /// Empties the summaries of entities that have items in history, and of those that are not versioned.
    async fn add_history(&self, entities: &mut [SeenEntity<S>]) -> Result<(), ServiceError> {
        let newest = entities.iter().filter_map(|seen| {
            let version = seen.summary.latest_version()?;
            Some((seen.entity.clone(), version))
        });
        let newest: Vec<_> = newest.collect();
        let found = self
            .limiter
            .run(async || versions_in_history(&self.store, &newest, false).await);
        let found = found.await?;
        for seen in entities {
            let is_in_history = found.contains(&seen.entity)
                || !seen.summary.is_entity()
                || self.is_in_history_table(&seen.entity).await?;
            if is_in_history {
                seen.summary = S::default();
            }
        }
        Ok(())
    }

    async fn is_in_history_table(&self, entity: &EntityId) -> Result<bool, ServiceError> {
        let found = self.limiter.run(async || self.store.is_in_history_table(entity).await);
        found.await
    }
}

fn by_entity(items: Vec<Item>) -> HashMap<String, Item> {
    let items = items.into_iter();
    items
        .filter_map(|item| Some((partition_key_of(&item)?.to_owned(), item)))
        .collect()
}
