//! Which versions are in history: `BatchGetItem`, of keys alone.

use std::collections::HashSet;

use crate::{
    domain::{entity::EntityId, keys::partition_key_of, names, version::Version},
    dynamodb::{Store, client::error::ServiceError, read::batch_get_items::MAX_KEYS},
};

impl Store {
    /// Of these versions, one of each entity, those that are in history: the entities that they are of. One request for each
    /// [`MAX_KEYS`] of them.
    pub async fn versions_in_history(
        &self,
        versions: &[(EntityId, Version)],
        consistent: bool,
    ) -> Result<HashSet<EntityId>, ServiceError> {
        let mut recorded = HashSet::new();
        for versions in versions.chunks(MAX_KEYS) {
            let keys = versions
                .iter()
                .map(|(entity, version)| (entity, self.digits.version_key(*version)));
            for item in self.batch_get_only(&[names::PK], keys, consistent).await? {
                recorded.extend(partition_key_of(&item).and_then(|id| EntityId::new(id).ok()));
            }
        }
        Ok(recorded)
    }
}
