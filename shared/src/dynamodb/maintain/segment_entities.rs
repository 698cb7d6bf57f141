//! Entities of one segment of a table: `Scan`, page by page. Each entity is a summary of its items, so that memory does not
//! grow with their size. A scan can continue after the last entity of an earlier one.

use serde::{Deserialize, Serialize};

use crate::{
    domain::{
        Item,
        audit::Collection,
        entity::EntityId,
        keys::{VersionDigits, partition_key_of, sort_key_of},
        names,
        prune::Seen,
    },
    dynamodb::{
        Store,
        client::error::ServiceError,
        maintain::rate_limit::RateLimiter,
        read::{query_items::Cursor, scan_segment::Segment},
        s,
    },
};

/// Summary of an entity's items.
pub trait Summary: Default {
    /// Adds one of the entity's items, in any order.
    fn add(&mut self, item: Item, digits: VersionDigits);
}

impl Summary for Collection {
    fn add(&mut self, item: Item, digits: VersionDigits) {
        Self::add(self, item, digits);
    }
}

impl Summary for Seen {
    fn add(&mut self, item: Item, digits: VersionDigits) {
        Self::add(self, item, digits);
    }
}

/// Key of an item.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ItemKey {
    #[serde(rename = "PK")]
    partition_key: String,
    #[serde(rename = "SK")]
    sort_key: String,
}

impl ItemKey {
    fn of(item: &Item) -> Option<Self> {
        Some(Self {
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
    /// Summary of its items.
    pub summary: S,
    /// Key of its last item, after which a later scan can continue.
    pub last: ItemKey,
}

/// Scan of a segment.
pub struct SegmentEntities<S> {
    store: Store,
    limiter: RateLimiter,
    segment: Segment,
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
        let limit = self.limiter.page_limit();
        let page = self.limiter.run(async || {
            self.store
                .scan_segment(self.segment, self.cursor.clone(), limit, false)
                .await
        });
        let (items, next) = page.await?;
        let mut complete = Vec::new();
        for item in items {
            if let Some(key) = ItemKey::of(&item) {
                complete.extend(self.add(key, item));
            }
        }
        self.cursor = next;
        if self.cursor.is_none() {
            complete.extend(self.current.take());
            self.is_read = true;
        }
        Ok(complete)
    }

    /// Adds an item, and returns the entity before it if that is complete: the items of one entity are adjacent in a scan.
    fn add(&mut self, key: ItemKey, item: Item) -> Option<SeenEntity<S>> {
        let digits = self.store.digits();
        if let Some(current) = &mut self.current
            && current.entity.as_str() == key.partition_key
        {
            current.summary.add(item, digits);
            current.last = key;
            return None;
        }
        let complete = self.current.take();
        // Only the table's own settings have a partition key that is not an entity.
        if let Ok(entity) = EntityId::new(key.partition_key.clone()) {
            let mut summary = S::default();
            summary.add(item, digits);
            self.current = Some(SeenEntity {
                entity,
                summary,
                last: key,
            });
        }
        complete
    }
}
