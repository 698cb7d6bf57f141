//! Latest versions of many entities: `BatchGetItem` of the numbers only.

use std::collections::HashMap;

use crate::{
    domain::{
        entity::EntityId,
        keys::{LATEST_KEY, partition_key_of},
        names,
        version::Version,
        version_item::latest_of,
    },
    dynamodb::{Store, client::error::ServiceError, read::batch_get_items::MAX_KEYS},
};

impl Store {
    /// Reads the latest version of each entity that has a valid one, with one request per [`MAX_KEYS`] entities.
    ///
    /// # Errors
    ///
    /// Returns [`ServiceError`] if a request fails.
    pub async fn latest_versions(
        &self,
        entities: &[EntityId],
        consistent: bool,
    ) -> Result<HashMap<EntityId, Version>, ServiceError> {
        let mut latest = HashMap::new();
        for entities in entities.chunks(MAX_KEYS) {
            let keys = entities.iter().map(|entity| (entity, LATEST_KEY.to_owned()));
            for item in self
                .batch_get_only(&[names::PK, names::LATEST], keys, consistent)
                .await?
            {
                let entity = partition_key_of(&item).and_then(|id| EntityId::new(id).ok());
                if let (Some(entity), Ok(version)) = (entity, latest_of(&item)) {
                    latest.insert(entity, version);
                }
            }
        }
        Ok(latest)
    }
}
