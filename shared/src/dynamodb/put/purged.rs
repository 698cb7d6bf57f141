//! Purge markers of the entities whose versions are about to be put: `BatchGetItem` with strongly consistent reads.

use std::collections::{BTreeSet, HashMap};

use crate::{
    domain::{
        entity::EntityId,
        keys::partition_key_of,
        purge_marker::{PurgeMarker, SORT_KEY},
        version_item::VersionItem,
    },
    dynamodb::{Store, client::error::ServiceError, read::batch_get_items::MAX_KEYS},
};

/// Purge markers by entity.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PurgeMarkers(HashMap<EntityId, PurgeMarker>);

impl PurgeMarkers {
    /// Returns `true` if the version was purged.
    pub fn covers(&self, version: &VersionItem) -> bool {
        let marker = self.0.get(version.entity());
        marker.is_some_and(|marker| marker.covers(version))
    }

    /// Returns the marker of an entity, `None` if it was never purged.
    pub fn of(&self, entity: &EntityId) -> Option<&PurgeMarker> {
        self.0.get(entity)
    }
}

impl Store {
    /// Reads the purge markers of these entities, each once.
    ///
    /// # Errors
    ///
    /// Returns [`ServiceError`] if a request fails, or if the item of a marker is not a valid marker.
    pub async fn purge_markers<'a>(
        &self,
        entities: impl IntoIterator<Item = &'a EntityId>,
    ) -> Result<PurgeMarkers, ServiceError> {
        let entities: BTreeSet<_> = entities.into_iter().collect();
        let keys: Vec<_> = entities.iter().map(|entity| entity.of_purge_marker()).collect();
        let mut items = HashMap::new();
        for keys in keys.chunks(MAX_KEYS) {
            for item in self
                .batch_get_keys(keys.iter().map(|key| (key, SORT_KEY)), true)
                .await?
            {
                if let Some(key) = partition_key_of(&item) {
                    items.insert(key.to_owned(), item);
                }
            }
        }
        let mut markers = HashMap::new();
        for (entity, key) in entities.into_iter().zip(&keys) {
            if let Some(item) = items.get(key.as_str()) {
                let marker = PurgeMarker::of(item).ok_or_else(invalid)?;
                markers.insert(entity.clone(), marker);
            }
        }
        Ok(PurgeMarkers(markers))
    }
}

/// Returns the error of an item that another program wrote at the key of a marker: what was purged is not known.
fn invalid() -> ServiceError {
    ServiceError::unusable("BatchGetItem", "returned an invalid purge marker")
}
