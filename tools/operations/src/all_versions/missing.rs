//! Versions that latest items count and the scan does not find: how far history lags, and what failed.
//!
//! The items of an entity are adjacent in a scan, so its versions and latest item show what is missing. With a history table, the latest
//! items of a page's entities are read after it; entities without any history follow in the scan of latest items.
//!
//! | first missing version | its time |
//! |---|---|
//! | the latest one, written by writer-fn | that of the latest item |
//! | in history at the end of the segment | its own |
//! | any other | not before that of the version before it |

use std::mem;

use serde::{Deserialize, Serialize};
use shared::{
    domain::{
        Item,
        attribution::WrittenBy,
        entity::EntityId,
        keys::{FLOOR_KEY, LATEST_KEY, VersionDigits, floor_of, partition_key_of, sort_key_of},
        names,
        recorded_at::RecordedAt,
        version::Version,
        version_item::latest_of,
    },
    dynamodb::{
        client::error::ServiceError,
        read::{batch_get_items::MAX_KEYS, versions::ReadError},
    },
};

use super::SegmentProgress;
use crate::{
    read::{lag::lag, paced::Paced, versions_in_history::versions_in_history},
    version_set::VersionSet,
};

/// Maximum number of entities of a segment whose missing versions are looked for together.
const MAX_ENTITIES: usize = 1000;
/// Attributes of a latest item that tell its version and time.
const OF_LATEST: [&str; 5] = [
    names::PK,
    names::LATEST,
    names::RECORDED_AT,
    names::RECORDED_TICK,
    names::RECORDED_VERSION,
];

/// Missing versions of a segment.
#[derive(Clone, Default, Serialize, Deserialize)]
pub struct Missing {
    /// Entity whose items are being read.
    current: Option<Seen>,
    /// Entities with missing versions.
    found: Vec<Seen>,
}

/// Items of an entity.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(super) struct Seen {
    entity: String,
    floor: Option<Version>,
    versions: VersionSet,
    /// Version of the latest item, and its time, which is not known if another program wrote it.
    latest: Option<(Version, Option<String>)>,
}

impl Seen {
    fn add_latest(&mut self, item: &Item) {
        self.latest = latest_of(item).ok().map(|version| {
            let is_own = WrittenBy::of(item, version) == WrittenBy::Own;
            let recorded_at = RecordedAt::of_latest(item).filter(|_| is_own);
            (version, recorded_at.map(|time| time.to_string()))
        });
    }

    fn first_missing(&self) -> Option<Version> {
        let floor = self.floor.unwrap_or(Version::FIRST).get();
        let (latest, _) = self.latest.as_ref()?;
        let (first, _) = self.versions.gaps(floor, latest.get()).ranges().next()?;
        Version::new(first)
    }

    /// Returns the time of the first missing version, or an earlier one. `None` if none is known.
    async fn time(&self, table: &Paced) -> Result<Option<RecordedAt>, ServiceError> {
        let (Some(first), Some((latest, recorded_at)), Ok(entity)) =
            (self.first_missing(), &self.latest, EntityId::new(&*self.entity))
        else {
            return Ok(None);
        };
        if let Some(time) = recorded_at.as_ref().filter(|_| first == *latest) {
            return Ok(RecordedAt::parse(time).ok());
        }
        for version in [first.get(), first.get() - 1].into_iter().filter_map(Version::new) {
            let item = table.send(async |store| store.version_item(&entity, version, true).await);
            if let Some(time) = item.await?.as_ref().and_then(RecordedAt::of) {
                return Ok(Some(time));
            }
        }
        Ok(None)
    }
}

impl Missing {
    /// Adds the next item of a scan. Returns the entity before it, whose items were all read.
    pub(super) fn add(&mut self, item: &Item, digits: VersionDigits) -> Option<Seen> {
        let id = partition_key_of(item).filter(|id| EntityId::new(*id).is_ok())?;
        let ended = self.current.take_if(|seen| seen.entity != id);
        let seen = self.current.get_or_insert_default();
        id.clone_into(&mut seen.entity);
        match sort_key_of(item)? {
            LATEST_KEY => seen.add_latest(item),
            FLOOR_KEY => seen.floor = floor_of(item),
            key => digits
                .version_of(key)
                .into_iter()
                .for_each(|version| seen.versions.insert(version.get())),
        }
        ended
    }
}

/// Adds the entities whose items were all read, at the end of a page. At the end of a scan, these include the last one.
pub(super) async fn add_entities(
    table: &Paced,
    mut ended: Vec<Seen>,
    progress: &mut SegmentProgress,
    is_end: bool,
) -> Result<(), ServiceError> {
    ended.extend(progress.deferred.current.take_if(|_| is_end));
    match (table.store.has_own_history(), progress.is_latest) {
        (true, true) => ended = without_history(table, ended).await?,
        (true, false) => add_latest(table, &mut ended).await?,
        (false, _) => {}
    }
    let found = &mut progress.deferred.found;
    found.extend(ended.into_iter().filter(|seen| seen.first_missing().is_some()));
    if is_end || found.len() > MAX_ENTITIES {
        for seen in mem::take(found) {
            progress.counts.missing.add_time(seen.time(table).await?);
        }
    }
    Ok(())
}

async fn add_latest(table: &Paced, seen: &mut [Seen]) -> Result<(), ServiceError> {
    for seen in seen.chunks_mut(MAX_KEYS) {
        let entities = seen.iter().filter_map(|seen| EntityId::new(&*seen.entity).ok());
        let items = table.latest_items(&OF_LATEST, &entities.collect::<Vec<_>>()).await?;
        for seen in seen {
            items
                .get(&seen.entity)
                .into_iter()
                .for_each(|item| seen.add_latest(item));
        }
    }
    Ok(())
}

/// Returns the entities whose latest version is not in history. If they have other versions, they had arrived since.
async fn without_history(table: &Paced, mut ended: Vec<Seen>) -> Result<Vec<Seen>, ServiceError> {
    let key = |seen: &Seen| Some((EntityId::new(&*seen.entity).ok()?, seen.latest.as_ref()?.0));
    let keys: Vec<_> = ended.iter().filter_map(key).collect();
    let stored = table.send(async |store| versions_in_history(store, &keys, false).await);
    let stored = stored.await?;
    ended.retain(|seen| key(seen).is_some_and(|(entity, _)| !stored.contains(&entity)));
    for seen in &mut ended {
        let Some((entity, latest)) = key(seen) else { continue };
        let lag = table.send(async |store| match lag(store, &entity).await {
            Err(ReadError::Service(error)) => Err(error),
            lag => Ok(lag.ok().flatten()),
        });
        let through = lag.await?.and_then(|lag| lag.through).map_or(0, Version::get);
        (seen.floor, seen.versions) = (None, VersionSet::default());
        seen.versions.insert_range(1, through.min(latest.get() - 1));
    }
    Ok(ended)
}
