//! Strongly consistent reads at the rate of a limiter.

use std::collections::HashMap;

use shared::{
    domain::{
        Item,
        entity::EntityId,
        keys::{LATEST_KEY, partition_key_of},
        version::Version,
    },
    dynamodb::{
        Store,
        client::error::ServiceError,
        read::query_items::{Cursor, Range},
    },
};

use crate::{
    quarantine::quarantined,
    rate_limit::{RateLimiter, Throttling},
    read::attached_items::attached_item,
    segments::scan::{Segment, scan_segment},
};

/// Store whose requests are sent at the rate of a limiter.
#[derive(Debug, Clone)]
pub struct Paced {
    pub store: Store,
    pub limiter: RateLimiter,
}

impl Paced {
    pub fn new(store: &Store, limiter: &RateLimiter) -> Self {
        Self {
            store: store.clone(),
            limiter: limiter.clone(),
        }
    }

    /// Sends a request.
    pub(crate) async fn send<T, E: Throttling>(&self, request: impl AsyncFn(&Store) -> Result<T, E>) -> Result<T, E> {
        // Boxed, to keep the futures of runs small.
        Box::pin(self.limiter.run(async || request(&self.store).await)).await
    }

    pub(crate) async fn get(&self, entity: &EntityId, sort_key: &str) -> Result<Option<Item>, ServiceError> {
        self.send(async |store| store.get(entity, sort_key, true).await).await
    }

    /// Returns the first version of history, 1 unless it was pruned.
    pub(crate) async fn floor(&self, entity: &EntityId) -> Result<Version, ServiceError> {
        self.send(async |store| store.floor(entity, true).await).await
    }

    /// Reads the item of the attached table with these key attributes.
    pub(crate) async fn attached_item(&self, key: &Item) -> Result<Option<Item>, ServiceError> {
        self.send(async |store| attached_item(store, key).await).await
    }

    /// Returns the number of records that an entity has in quarantine.
    pub(crate) async fn quarantined(&self, entity: &EntityId) -> Result<u64, ServiceError> {
        let records = self.send(async |store| quarantined(store, entity).await).await?;
        Ok(records.len() as u64)
    }

    /// Reads attributes, or all, of the latest items of at most 100 entities, eventually consistently, by partition key.
    pub(crate) async fn latest_items(
        &self,
        attributes: &[&str],
        entities: &[EntityId],
    ) -> Result<HashMap<String, Item>, ServiceError> {
        let keys = entities.iter().map(|entity| (entity, LATEST_KEY));
        let read = self.send(async |store| store.batch_get_only(attributes, keys.clone(), false).await);
        let by_entity = |item: Item| Some((partition_key_of(&item)?.to_owned(), item));
        Ok(read.await?.into_iter().filter_map(by_entity).collect())
    }

    /// Reads all version items of an entity in the order of their sort keys, page by page.
    pub(crate) async fn each_version(&self, entity: &EntityId, mut add: impl FnMut(Item)) -> Result<(), ServiceError> {
        let range = Range::all_versions(self.limiter.page_limit());
        let mut cursor = None;
        loop {
            let page = self.send(async |store| store.query_page(entity, &range, cursor.clone()).await);
            let (items, next) = page.await?;
            items.into_iter().for_each(&mut add);
            cursor = next;
            if cursor.is_none() {
                return Ok(());
            }
        }
    }

    /// Reads a page of a segment of one of the store's tables, with strongly or eventually consistent reads.
    pub(crate) async fn scan(
        &self,
        table: &str,
        segment: Segment,
        start: Option<Cursor>,
        consistent: bool,
    ) -> Result<(Vec<Item>, Option<Cursor>), ServiceError> {
        let limit = self.limiter.page_limit();
        self.send(async |store| scan_segment(store, table, segment, start.clone(), limit, consistent).await)
            .await
    }
}
