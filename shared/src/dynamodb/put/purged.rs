//! What was removed of the entities whose versions are about to be put, their purge markers with what was erased, and their floors:
//! `BatchGetItem` with strongly consistent reads.

use std::collections::{BTreeSet, HashMap};

use crate::{
    domain::{
        entity::EntityId,
        erase::erased_version,
        erased::Erasures,
        keys::{FLOOR_KEY, floor_of, partition_key_of},
        names,
        purge_marker::{PurgeMarker, SORT_KEY},
        time::EpochMillis,
        version::Version,
        version_item::VersionItem,
    },
    dynamodb::{Store, client::error::ServiceError, read::batch_get_items::MAX_KEYS},
};

/// What was removed of entities.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Removed {
    markers: HashMap<EntityId, PurgeMarker>,
    erasures: HashMap<EntityId, Erasures>,
    /// First versions of the histories that were pruned.
    floors: HashMap<EntityId, Version>,
}

impl Removed {
    /// Returns the purge marker of an entity, `None` if it was never purged.
    pub fn marker(&self, entity: &EntityId) -> Option<&PurgeMarker> {
        self.markers.get(entity)
    }

    /// Returns what was erased from an entity, `None` if nothing was.
    pub fn erasures(&self, entity: &EntityId) -> Option<&Erasures> {
        self.erasures.get(entity)
    }

    /// Returns the erasures that cover a version.
    pub fn erasures_of(&self, version: &VersionItem) -> Erasures {
        let purged_at = self.marker(version.entity()).map(|marker| marker.purged_at);
        let erasures = self.erasures(version.entity());
        erasures.map_or_else(Erasures::default, |erasures| {
            erasures.of_version(version.version(), purged_at)
        })
    }

    /// Returns the erasures that cover a stream record without a numbered version.
    pub fn erasures_of_record(&self, entity: &EntityId, created: Option<EpochMillis>) -> Erasures {
        let erasures = self.erasures(entity);
        erasures.map_or_else(Erasures::default, |erasures| erasures.of_record(created))
    }

    /// Returns the version as it is stored: without what was erased from it.
    #[must_use]
    pub fn erased(&self, version: VersionItem) -> VersionItem {
        let erasures = self.erasures_of(&version);
        erased_version(version, &erasures)
    }

    /// Returns `true` if the version was purged.
    pub fn is_purged(&self, version: &VersionItem) -> bool {
        let marker = self.marker(version.entity());
        marker.is_some_and(|marker| marker.covers(version))
    }

    /// Returns `true` if the version is before the first one of a pruned history. If it is not stored, it was pruned.
    pub fn is_below_floor(&self, version: &VersionItem) -> bool {
        let floor = self.floors.get(version.entity());
        floor.is_some_and(|floor| version.version() < *floor)
    }
}

impl Store {
    /// Reads the purge markers of these entities, each once, and with them their floors: one request for each 100 items.
    ///
    /// # Errors
    ///
    /// Returns [`ServiceError`] if a request fails, or if the item of a marker is not a valid marker.
    pub async fn removed<'a>(
        &self,
        entities: impl IntoIterator<Item = &'a EntityId>,
        with_floors: bool,
    ) -> Result<Removed, ServiceError> {
        let entities: BTreeSet<_> = entities.into_iter().collect();
        let markers: Vec<_> = entities.iter().map(|entity| entity.of_purge_marker()).collect();
        let floors = entities
            .iter()
            .filter(|_| with_floors)
            .map(|entity| (*entity, FLOOR_KEY));
        let keys: Vec<_> = markers.iter().map(|key| (key, SORT_KEY)).chain(floors).collect();
        let mut items = HashMap::new();
        for keys in keys.chunks(MAX_KEYS) {
            for item in self.batch_get_only(&[], keys.iter().copied(), true).await? {
                if let Some(key) = partition_key_of(&item) {
                    items.insert(key.to_owned(), item);
                }
            }
        }
        let mut removed = Removed::default();
        for (entity, key) in entities.into_iter().zip(&markers) {
            if let Some(item) = items.get(key.as_str()) {
                let erasures = Erasures::of(item).ok_or_else(invalid)?;
                let is_purged = [names::PURGED, names::PURGED_AT]
                    .iter()
                    .any(|name| item.contains_key(*name));
                if is_purged || erasures.is_empty() {
                    let marker = PurgeMarker::of(item).ok_or_else(invalid)?;
                    removed.markers.insert(entity.clone(), marker);
                }
                if !erasures.is_empty() {
                    removed.erasures.insert(entity.clone(), erasures);
                }
            }
            if let Some(floor) = items.get(entity.as_str()).and_then(floor_of) {
                removed.floors.insert(entity.clone(), floor);
            }
        }
        Ok(removed)
    }
}

/// Returns the error of an item that another program wrote at the key of a marker: what was purged is not known.
fn invalid() -> ServiceError {
    ServiceError::unusable("BatchGetItem", "returned an invalid purge marker")
}
