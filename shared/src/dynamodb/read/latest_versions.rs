//! Latest versions of many entities: `BatchGetItem` of the numbers only.

use std::collections::HashMap;

use crate::{
    domain::{
        Item,
        entity::EntityId,
        keys::{LATEST_KEY, partition_key_of},
        marks::is_expired,
        names,
        version::Version,
        version_item::latest_of,
    },
    dynamodb::{Store, client::error::ServiceError, read::batch_get_items::MAX_KEYS},
};

impl Store {
    /// Reads the latest version of each entity that has a valid one, with one request per [`MAX_KEYS`] entities. A tombstone that
    /// has expired is left out.
    ///
    /// # Errors
    ///
    /// Returns [`ServiceError`] if a request fails.
    pub async fn latest_versions(
        &self,
        entities: &[EntityId],
        consistent: bool,
    ) -> Result<HashMap<EntityId, Version>, ServiceError> {
        let now = self.clock.now();
        self.counters(entities, consistent, |item| !is_expired(item, now)).await
    }

    /// Reads the number of each latest item that has a valid one, also of a tombstone that has expired and is not deleted yet.
    ///
    /// # Errors
    ///
    /// Returns [`ServiceError`] if a request fails.
    pub async fn counted_versions(&self, entities: &[EntityId]) -> Result<HashMap<EntityId, Version>, ServiceError> {
        self.counters(entities, true, |_| true).await
    }

    async fn counters(
        &self,
        entities: &[EntityId],
        consistent: bool,
        is_read: impl Fn(&Item) -> bool,
    ) -> Result<HashMap<EntityId, Version>, ServiceError> {
        let mut latest = HashMap::new();
        for entities in entities.chunks(MAX_KEYS) {
            let keys = entities.iter().map(|entity| (entity, LATEST_KEY.to_owned()));
            let attributes = [names::PK, names::LATEST, names::TTL];
            let items = self.batch_get_only(&attributes, keys, consistent).await?;
            for item in items.into_iter().filter(&is_read) {
                let entity = partition_key_of(&item).and_then(|id| EntityId::new(id).ok());
                if let (Some(entity), Ok(version)) = (entity, latest_of(&item)) {
                    latest.insert(entity, version);
                }
            }
        }
        Ok(latest)
    }
}
