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

use std::{collections::HashMap, mem, rc::Rc};

use crate::{
    audit::collection::Collection,
    read::{paced::Paced, versions_in_history::versions_in_history},
    segments::{progress::Progress, scan::Segment},
};
use shared::{
    domain::{
        Item,
        entity::EntityId,
        keys::{LATEST_KEY, partition_key_of, sort_key_of},
        names,
        version::Version,
        version_item::latest_of,
        view::VersionView,
    },
    dynamodb::{
        Store,
        client::error::ServiceError,
        read::{
            batch_get_items::MAX_KEYS,
            query_items::{Cursor, Range},
        },
    },
};

/// Entity whose items were all read, with eventually consistent reads.
pub(crate) struct SeenEntity {
    pub entity: EntityId,
    /// Summary of its items, empty if they were part of an earlier scan.
    pub summary: Collection,
    /// Number of items that were scanned.
    pub items: u64,
    /// First version that is [`Watched`].
    pub first: Option<Version>,
    /// Key of its last scanned item, after which a later scan can continue.
    last: Item,
}

impl SeenEntity {
    fn watch(&mut self, store: &Store, item: &Item, watched: Option<&Watched>) {
        let Some(watched) = watched else { return };
        let version = match sort_key_of(item) {
            Some(LATEST_KEY) => latest_of(item).ok(),
            _ => store.digits().version_of_item(item),
        };
        let Some(version) = version.filter(|version| self.first.is_none_or(|first| *version < first)) else {
            return;
        };
        if watched(&store.view(&self.entity, version, item.clone())) {
            self.first = Some(version);
        }
    }

    /// Returns `true` if it has versions, also without a latest item.
    pub(crate) fn is_versioned(&self) -> bool {
        self.summary.latest_version().is_some() || !self.summary.versions.is_empty()
    }

    /// Returns `true` if a version between the floor and the latest one was not seen.
    pub(crate) fn has_gap(&self) -> bool {
        let latest = self.summary.latest_version().and_then(Result::ok);
        let (floor, latest) = (self.summary.floor().get(), latest.map_or(0, Version::get));
        // Without a valid latest item, versions say nothing about what is missing.
        latest == 0 || !self.summary.versions.gaps(floor, latest).is_empty()
    }
}

/// Scan of a segment.
pub(crate) struct SegmentEntities {
    table: Paced,
    segment: Segment,
    cursor: Option<Cursor>,
    /// Entity whose items are being read.
    current: Option<SeenEntity>,
    watched: Option<Watched>,
}

/// Returns `true` for versions whose first one is to be known.
pub(crate) type Watched = Rc<dyn Fn(&VersionView) -> bool>;

impl SegmentEntities {
    /// Starts a scan, or continues after the last entity of an earlier one.
    /// With `watched`, it also finds the first such version of each entity.
    pub(crate) fn new<C, D>(
        table: Paced,
        segment: Segment,
        progress: &Progress<C, D>,
        watched: Option<Watched>,
    ) -> Self {
        Self {
            table,
            segment,
            cursor: progress.after.clone().map(Cursor::from),
            current: None,
            watched,
        }
    }

    pub(crate) fn is_watched(&self) -> bool {
        self.watched.is_some()
    }

    /// Reads the next page. Returns the entities that are now complete; there can be none. The progress continues after them.
    ///
    /// # Errors
    ///
    /// Returns [`ServiceError`] if a request fails.
    pub(crate) async fn next_page<C, D>(
        &mut self,
        progress: &mut Progress<C, D>,
    ) -> Result<Vec<SeenEntity>, ServiceError> {
        let store = &self.table.store;
        let has_latest_items = store.has_own_history() && store.attached_table().is_none();
        let scanned = match progress.is_latest {
            true => store.latest_table(),
            false => store.history_table(),
        };
        let page = self.table.scan(scanned, self.segment, self.cursor.take(), false);
        let (items, next) = page.await?;
        let mut complete: Vec<_> = items.into_iter().filter_map(|item| self.add(item)).collect();
        if next.is_none() {
            complete.extend(self.current.take());
        }
        if has_latest_items {
            for entities in complete.chunks_mut(MAX_KEYS) {
                // Boxed: only one layout needs these large futures.
                match progress.is_latest {
                    true => Box::pin(self.add_history(entities)).await?,
                    false => Box::pin(self.add_latest_items(entities)).await?,
                }
            }
        }
        if let Some(last) = complete.last() {
            progress.after = Some(last.last.clone());
        }
        if next.is_none() {
            progress.after = None;
            progress.done = progress.is_latest || !has_latest_items;
            progress.is_latest = has_latest_items;
        }
        self.cursor = next;
        Ok(complete)
    }

    /// Adds an item, and returns the entity before it if that is complete: the items of one entity are adjacent in a scan.
    fn add(&mut self, item: Item) -> Option<SeenEntity> {
        let key = [names::PK, names::SK].map(|name| Some((name.to_owned(), item.get(name)?.clone())));
        let key: HashMap<_, _> = key.into_iter().flatten().collect();
        let id = partition_key_of(&item)?;
        let mut complete = None;
        if self
            .current
            .as_ref()
            .is_none_or(|current| current.entity.as_str() != id)
        {
            complete = self.current.take();
            // Only the table's own settings have a partition key that is not an entity.
            self.current = EntityId::new(id).ok().map(|entity| SeenEntity {
                entity,
                summary: Collection::of(&self.table.store),
                items: 0,
                first: None,
                last: Item::default(),
            });
        }
        if let Some(current) = &mut self.current {
            current.watch(&self.table.store, &item, self.watched.as_ref());
            current.summary.add(item);
            current.items += 1;
            current.last = key.into();
        }
        complete
    }

    /// Adds the latest items of entities that were found in history.
    async fn add_latest_items(&self, entities: &mut [SeenEntity]) -> Result<(), ServiceError> {
        let ids: Vec<_> = entities.iter().map(|seen| seen.entity.clone()).collect();
        let mut latest = self.table.latest_items(&[], &ids).await?;
        for seen in entities {
            if let Some(item) = latest.remove(seen.entity.as_str()) {
                seen.watch(&self.table.store, &item, self.watched.as_ref());
                seen.summary.add(item);
            }
        }
        Ok(())
    }

    /// Empties the summaries of entities that have items in history, and of those that are not versioned.
    async fn add_history(&self, entities: &mut [SeenEntity]) -> Result<(), ServiceError> {
        let newest = entities.iter().filter_map(|seen| {
            let version = seen.summary.latest_version()?.ok()?;
            Some((seen.entity.clone(), version))
        });
        let newest: Vec<_> = newest.collect();
        let found = self
            .table
            .send(async |store| versions_in_history(store, &newest, false).await);
        let found = found.await?;
        for seen in entities {
            let is_counted = !found.contains(&seen.entity) && seen.summary.is_entity();
            // The history table can have a floor, a version, or a record in quarantine.
            let range = Range::from_floor(Some(1));
            let in_history = async |store: &Store| store.query_page(&seen.entity, &range, None).await;
            if !is_counted || !self.table.send(in_history).await?.0.is_empty() {
                mem::take(&mut seen.summary);
            }
        }
        Ok(())
    }
}
