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

use std::{collections::HashMap, mem};

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
        Store,
        client::error::ServiceError,
        read::{batch_get_items::MAX_KEYS, versions::ReadError},
    },
};

use super::{SegmentProgress, earliest};
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
    found: Vec<Gap>,
}

/// Items of an entity.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(super) struct Seen {
    entity: String,
    floor: Option<Version>,
    versions: VersionSet,
    latest: Option<Latest>,
}

/// Version of a latest item. Its time is not known if another program wrote it.
#[derive(Clone, Serialize, Deserialize)]
struct Latest {
    version: Version,
    recorded_at: Option<String>,
}

#[derive(Clone, Serialize, Deserialize)]
struct Gap {
    entity: String,
    first: Version,
    latest: Latest,
}

impl Latest {
    fn of(item: &Item) -> Option<Self> {
        let version = latest_of(item).ok()?;
        let is_own = WrittenBy::of(item, version) == WrittenBy::Own;
        let recorded_at = RecordedAt::of_latest(item).filter(|_| is_own);
        Some(Self {
            version,
            recorded_at: recorded_at.map(|time| time.to_string()),
        })
    }
}

impl Seen {
    fn gap(self) -> Option<Gap> {
        let latest = self.latest?;
        let floor = self.floor.unwrap_or(Version::FIRST).get();
        let (first, _) = self.versions.gaps(floor, latest.version.get()).ranges().next()?;
        Some(Gap {
            entity: self.entity,
            first: Version::new(first)?,
            latest,
        })
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
            LATEST_KEY => seen.latest = Latest::of(item),
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
    let found = &mut progress.deferred.found;
    match (table.store.has_own_history(), progress.is_latest) {
        (true, true) => found.extend(without_history(table, ended).await?),
        (true, false) => {
            add_latest(table, &mut ended).await?;
            found.extend(ended.into_iter().filter_map(Seen::gap));
        }
        (false, _) => found.extend(ended.into_iter().filter_map(Seen::gap)),
    }
    if is_end || found.len() > MAX_ENTITIES {
        for gap in mem::take(found) {
            let time = time_of(table, &gap).await?.map(|time| time.to_string());
            progress.counts.missing_without_time += u64::from(time.is_none());
            let oldest = &mut progress.counts.oldest_missing;
            *oldest = earliest(oldest.take(), time);
        }
    }
    Ok(())
}

async fn add_latest(table: &Paced, seen: &mut [Seen]) -> Result<(), ServiceError> {
    for seen in seen.chunks_mut(MAX_KEYS) {
        let entities: Vec<_> = seen
            .iter()
            .filter_map(|seen| EntityId::new(&*seen.entity).ok())
            .collect();
        let keys = entities.iter().map(|entity| (entity, LATEST_KEY));
        let read = async |store: &Store| store.batch_get_only(&OF_LATEST, keys.clone(), false).await;
        let items = table.send(read).await?.into_iter();
        let items = items.filter_map(|item| Some((partition_key_of(&item)?.to_owned(), item)));
        let items: HashMap<_, _> = items.collect();
        for seen in seen {
            seen.latest = items.get(&seen.entity).and_then(Latest::of);
        }
    }
    Ok(())
}

/// Returns the gaps of entities whose latest version is not in history. If they have other versions, they had arrived since.
async fn without_history(table: &Paced, ended: Vec<Seen>) -> Result<Vec<Gap>, ServiceError> {
    let latest = ended.into_iter().filter_map(|seen| {
        let entity = EntityId::new(seen.entity).ok()?;
        Some((entity, seen.latest?))
    });
    let latest: Vec<_> = latest.collect();
    let keys: Vec<_> = latest
        .iter()
        .map(|(entity, latest)| (entity.clone(), latest.version))
        .collect();
    let stored = table.send(async |store| versions_in_history(store, &keys, false).await);
    let (stored, mut gaps) = (stored.await?, Vec::new());
    for (entity, latest) in latest.into_iter().filter(|(entity, _)| !stored.contains(entity)) {
        let lag = table.send(async |store| match lag(store, &entity).await {
            Err(ReadError::Service(error)) => Err(error),
            lag => Ok(lag.ok().flatten()),
        });
        let through = lag.await?.and_then(|lag| lag.through).map_or(0, Version::get);
        gaps.push(Gap {
            entity: entity.as_str().to_owned(),
            first: Version::new(through + 1).map_or(latest.version, |first| first.min(latest.version)),
            latest,
        });
    }
    Ok(gaps)
}

/// Returns the time of the first missing version, or an earlier one. `None` if none is known.
async fn time_of(table: &Paced, gap: &Gap) -> Result<Option<RecordedAt>, ServiceError> {
    if let Some(time) = gap
        .latest
        .recorded_at
        .as_ref()
        .filter(|_| gap.first == gap.latest.version)
    {
        return Ok(RecordedAt::parse(time).ok());
    }
    let Ok(entity) = EntityId::new(&*gap.entity) else {
        return Ok(None);
    };
    for version in [Some(gap.first), Version::new(gap.first.get() - 1)]
        .into_iter()
        .flatten()
    {
        let item = table.send(async |store| store.version_item(&entity, version, true).await);
        if let Some(time) = item.await?.as_ref().and_then(RecordedAt::of) {
            return Ok(Some(time));
        }
    }
    Ok(None)
}
