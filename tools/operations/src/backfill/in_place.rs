//! Items of the versioned table itself: a latest item without `Latest`, or at a padded key.
//!
//! A latest item without `Latest` becomes version 1, on condition that it still has none. If there are versions already, it
//! becomes the highest one or the next one, as in a [`repair`](crate::latest::adopted).
//!
//! No attribute is lost if an update comes first: it changes the latest item, whose other attributes stay.

use shared::{
    config::WriteMode,
    domain::{
        Item,
        attribution::WrittenBy,
        entity::EntityId,
        keys::{LATEST_KEY, partition_key_of},
        marks::MARKS,
        names,
        version::Version,
        version_item::{VersionItem, latest_of},
    },
    dynamodb::{Store, put::put_version::PutOutcome},
};
use writer_fn::counter::WriteError;

use super::{
    Backfill, ItemOutcome, Stop,
    mapping::{Refusal, request_id},
};
use crate::latest::{
    self,
    write::{count_first, move_latest, raise_latest},
};

impl Backfill {
    /// Sets `Latest` of a latest item that has none.
    pub(super) async fn adopt(&self, item: &Item) -> Result<ItemOutcome, Stop> {
        let store = &self.target.store;
        let entity = EntityId::new(partition_key_of(item).unwrap_or_default()).map_err(Refusal::from)?;
        let keys = [names::PK, names::SK].map(str::to_owned);
        let request_id = request_id(store.latest_table(), &keys, item)?;
        if item.contains_key(names::LATEST) {
            self.put_missing_first(item).await?;
            return Ok(ItemOutcome::AlreadyThere);
        }
        let highest = self.highest(&entity).await?;
        // A latest item that lost its counter has them too.
        let recent = highest.is_none().then_some(names::RECENT_REQUESTS);
        let mut reserved = recent.into_iter().chain(MARKS);
        if let Some(name) = reserved.find(|name| item.contains_key(*name)) {
            return Err(Refusal::Reserved(name).into());
        }
        if self.dry_run {
            return Ok(ItemOutcome::Written);
        }
        let to = latest::adopted(item, highest.as_ref(), store.digits());
        let count = async |store: &Store| match to {
            _ if highest.is_none() => count_first(store, &entity, &request_id).await,
            Some(to) => raise_latest(store, &entity, None, to).await,
            None => Ok(None),
        };
        let counted = self.target.send(count).await?;
        self.put_version_of(counted).await
    }

    /// Moves a latest item from the padded key of version 0 to `v0`.
    pub(super) async fn move_padded(&self, item: &Item) -> Result<ItemOutcome, Stop> {
        let Some(entity) = partition_key_of(item).and_then(|id| EntityId::new(id).ok()) else {
            return Ok(ItemOutcome::Skipped);
        };
        if self.target.get(&entity, LATEST_KEY).await?.is_some() {
            return Ok(ItemOutcome::AlreadyThere);
        }
        let highest = self.highest(&entity).await?;
        let Some((_, latest)) = latest::moved(item, highest.as_ref(), self.target.store.digits()) else {
            return Ok(ItemOutcome::Skipped);
        };
        if self.dry_run {
            return Ok(ItemOutcome::Written);
        }
        let is_moved = self.target.send(async |store| move_latest(store, item, &latest).await);
        let moved = is_moved.await?.then_some(latest);
        self.put_version_of(moved).await
    }

    /// Returns the highest version of an entity. It is refused if the next one would be below the floor.
    async fn highest(&self, entity: &EntityId) -> Result<Option<(Version, Item)>, Stop> {
        // Versions with keys of another width would get a second history.
        let is_other = async |store: &Store| store.has_history(entity, true).await.map_err(WriteError::from);
        self.target.send(is_other).await?;
        let newest = async |store: &Store| store.newest_in_history(entity, true).await;
        let highest = self.target.send(newest).await?;
        let number = highest.as_ref().map_or(Version::FIRST, |(version, _)| *version);
        match self.target.floor(entity).await? > number {
            true => Err(Refusal::Uncounted.into()),
            false => Ok(highest),
        }
    }

    /// Puts version 1 of a latest item, if it is missing: an interrupted run may have set `Latest`, but not put the version. The
    /// item does not show that, because it keeps its own request id. A different version 1 is a finding of the audit.
    async fn put_missing_first(&self, latest: &Item) -> Result<(), Stop> {
        let is_first = latest_of(latest) == Ok(Version::FIRST);
        // Otherwise, the time of the version comes from its stream record.
        let is_own = WrittenBy::of(latest, Version::FIRST) == WrittenBy::Own;
        if self.dry_run || self.options.mode == WriteMode::Stream || !is_first || !is_own {
            return Ok(());
        }
        let item = self.version_of(latest.clone())?;
        if self.target.send(async |store| store.preview_put(&item).await).await? == PutOutcome::Recorded {
            self.put_version_of(Some(latest.clone())).await?;
        }
        Ok(())
    }

    /// Puts the version of a changed latest item, unless stream-fn does. `None` if another client was first.
    async fn put_version_of(&self, image: Option<Item>) -> Result<ItemOutcome, Stop> {
        let Some(image) = image else {
            return Ok(ItemOutcome::AlreadyThere);
        };
        if self.options.mode != WriteMode::Stream {
            let item = self.version_of(image)?;
            let removed = async |store: &Store| store.removed([item.entity()], false).await;
            let item = self.target.send(removed).await?.erased(item);
            if self.target.send(async |store| store.put_version(&item).await).await? == PutOutcome::Conflict {
                let version = item.version();
                return Err(WriteError::Taken { version }.into());
            }
        }
        Ok(ItemOutcome::Written)
    }

    fn version_of(&self, image: Item) -> Result<VersionItem, WriteError> {
        VersionItem::from_image(image, self.target.store.digits()).map_err(WriteError::Latest)
    }
}
