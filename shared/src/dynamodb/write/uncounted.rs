//! Entities whose latest item is missing or has no `Latest`, although there are versions.
//!
//! An update would count from 1, and its version item would meet an existing one. A floor shows that there were versions, also
//! if all of them were pruned or deleted: an update would create a version below it. A deleted latest item whose last version
//! is a tombstone that has [expired](crate::domain::tombstone) is restored; every other entity needs a repair.

use crate::{
    domain::{
        Item, entity::EntityId, keys::LATEST_KEY, names, recent_requests::Window, repair::revived, tombstone,
        version::Version,
    },
    dynamodb::{Store, write::outcome::WriteError},
};

/// Latest item of an entity whose stored latest item did not count its versions.
#[derive(Debug)]
pub(crate) enum Counted {
    /// Another writer created it in the meantime.
    Stored(Item),
    /// It is an expired tombstone, and can be restored.
    Expired {
        /// Its version.
        version: Version,
        /// Latest item to put.
        latest: Item,
    },
}

impl Store {
    /// Returns the latest item of an entity whose stored latest item does not count its versions, `None` if there are none.
    ///
    /// # Errors
    ///
    /// Returns [`WriteError::Uncounted`] if there are versions, unless the entity was deleted and has expired, and
    /// [`WriteError::Service`] if a request fails.
    pub(crate) async fn counted_latest(&self, entity: &EntityId, window: Window) -> Result<Option<Item>, WriteError> {
        let (version, latest) = match self.counted(entity).await? {
            None => return Ok(None),
            Some(Counted::Stored(latest)) => return Ok(Some(latest)),
            Some(Counted::Expired { version, latest }) => (version, latest),
        };
        self.revive_latest(entity, version, &latest, window).await?;
        let latest = self.get(entity, LATEST_KEY, true).await?;
        latest.map_or(Err(WriteError::Uncounted { version }), |latest| Ok(Some(latest)))
    }

    /// As [`Self::counted_latest`], but does not restore the latest item.
    ///
    /// # Errors
    ///
    /// As [`Self::counted_latest`].
    pub(crate) async fn counted(&self, entity: &EntityId) -> Result<Option<Counted>, WriteError> {
        if !self.has_history(entity, true).await? {
            return Ok(None);
        }
        let mut latest = self.get(entity, LATEST_KEY, true).await?;
        // Another writer can have created the first version in the meantime.
        if let Some(latest) = latest.take_if(|latest| latest.contains_key(names::LATEST)) {
            return Ok(Some(Counted::Stored(latest)));
        }
        let floor = self.floor(entity, true).await?;
        let newest = self.newest_in_history(entity, true).await?;
        let Some((version, newest)) = newest.filter(|(version, _)| *version >= floor) else {
            // Pruned versions, or a latest item at a padded key.
            return Err(WriteError::Uncounted { version: floor });
        };
        if latest.is_some() || !tombstone::has_expired(&newest, self.clock.now()) {
            return Err(WriteError::Uncounted { version });
        }
        let latest = revived(&newest, version);
        Ok(Some(Counted::Expired { version, latest }))
    }
}
