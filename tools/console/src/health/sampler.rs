//! Samples of the write rate and the lag of history, of up to 25 entities.
//!
//! A sample is taken only when the page is requested. It reads the latest version of each entity, and looks for it in history only
//! until it is there. The difference to the sample before is the write rate.

use std::{
    collections::{HashMap, VecDeque},
    time::Duration,
};

use futures::future::try_join_all;
use operations::{connection::Connection, error::OperationError};
use shared::{
    domain::{entity::EntityId, time::EpochMillis, version::Version},
    dynamodb::{
        Store,
        client::capacity::Meter,
        read::{scan_latest::LatestFilter, scan_segment::Segment},
    },
    logging::chain,
};

use crate::time;

const MAX_ENTITIES: usize = 25;
/// Maximum number of entities whose exact lag is read.
const MAX_LAGS: usize = 5;
const MIN_INTERVAL: Duration = Duration::from_secs(2);
const RETENTION: Duration = Duration::from_secs(30 * 60);
/// Time after which entities are selected again.
const SELECTION_AGE: Duration = Duration::from_secs(600);
/// Entities are selected from the first items of each segment of the table.
const SEGMENTS: u32 = 4;
const PAGE_ITEMS: i32 = 25;
const MAX_PAGES: usize = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Point {
    pub(super) at: EpochMillis,
    /// Versions per 1,000 seconds since the sample before.
    pub(super) rate: Option<u64>,
    /// Number of versions that are not in history yet.
    pub(super) lag: u64,
}

/// Samples so far, and the state for the next one.
#[derive(Default)]
pub(crate) struct Samples {
    metered: Option<(Store, Meter)>,
    entities: Vec<EntityId>,
    /// `true` if the table has no other entities.
    is_all: bool,
    selected: Option<EpochMillis>,
    latest: HashMap<EntityId, Version>,
    /// Versions that were found in history.
    recorded: HashMap<EntityId, Version>,
    behind: HashMap<EntityId, u64>,
    tried: Option<EpochMillis>,
    points: VecDeque<Point>,
    units: f64,
    error: Option<String>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Snapshot {
    pub(super) points: Vec<Point>,
    /// Entities of the last sample, with their latest version and the number of versions that are not in history yet.
    pub(super) entities: Vec<(EntityId, Version, u64)>,
    pub(super) is_all: bool,
    /// Read units that the last sample consumed.
    pub(super) units: f64,
    pub(super) error: Option<String>,
}

impl Samples {
    /// Takes a sample if the last one is old enough, and returns all samples.
    pub(super) async fn snapshot(&mut self, connection: &Connection) -> Snapshot {
        let now = time::now();
        if is_older(self.tried, now, MIN_INTERVAL) {
            self.tried = Some(now);
            self.error = self.take(connection, now).await.err().map(|error| chain(&error));
        }
        self.last()
    }

    /// Returns all samples, and reads nothing.
    pub(super) fn last(&self) -> Snapshot {
        let behind = |entity: &EntityId| self.behind.get(entity).copied().unwrap_or_default();
        let entities = self.latest.iter();
        let entities = entities.map(|(entity, version)| (entity.clone(), *version, behind(entity)));
        let mut entities: Vec<_> = entities.collect();
        entities.sort_by(|(a, ..), (b, ..)| a.cmp(b));
        Snapshot {
            points: self.points.iter().copied().collect(),
            entities,
            is_all: self.is_all,
            units: self.units,
            error: self.error.clone(),
        }
    }

    async fn take(&mut self, connection: &Connection, now: EpochMillis) -> Result<(), OperationError> {
        let (store, meter) = self.metered.get_or_insert_with(|| connection.metered()).clone();
        if is_older(self.selected, now, SELECTION_AGE) {
            self.select(&store).await?;
            self.selected = Some(now);
        }
        let latest = store.latest_versions(&self.entities, false).await?;
        self.behind = self.behind(&store, &latest).await?;
        let lag = self.behind.values().sum();
        // The time of the response is closer to the measured values than the time of the request.
        let at = time::now();
        let rate = self
            .points
            .back()
            .and_then(|last| rate(&self.latest, &latest, last.at, at));
        self.latest = latest;
        self.points.push_back(Point { at, rate, lag });
        while self
            .points
            .front()
            .is_some_and(|first| is_older(Some(first.at), at, RETENTION))
        {
            self.points.pop_front();
        }
        self.units = meter.take().iter().map(|charge| charge.units).sum();
        Ok(())
    }

    /// Returns the entities with versions that are not in history yet, and the number of these versions.
    async fn behind(
        &mut self,
        store: &Store,
        latest: &HashMap<EntityId, Version>,
    ) -> Result<HashMap<EntityId, u64>, OperationError> {
        self.recorded
            .retain(|entity, version| latest.get(entity) == Some(version));
        let unknown = latest.iter().filter(|(entity, _)| !self.recorded.contains_key(*entity));
        let unknown: Vec<_> = unknown.map(|(entity, version)| (entity.clone(), *version)).collect();
        let found = store.versions_in_history(&unknown, false).await?;
        let mut behind = HashMap::new();
        for (entity, version) in unknown {
            if found.contains(&entity) {
                self.recorded.insert(entity, version);
                continue;
            }
            // Beyond the limit, only the latest version counts.
            let lag = match behind.len() < MAX_LAGS {
                false => 1,
                true => store.lag(&entity).await?.map_or(0, |lag| {
                    lag.latest.get().saturating_sub(lag.through.map_or(0, Version::get))
                }),
            };
            behind.insert(entity, lag);
        }
        Ok(behind)
    }

    async fn select(&mut self, store: &Store) -> Result<(), OperationError> {
        let filter = LatestFilter::default();
        let mut next: Vec<_> = (0..SEGMENTS).map(|index| (index, None)).collect();
        let mut found: Vec<EntityId> = Vec::new();
        for _ in 0..MAX_PAGES {
            let pages = next.drain(..).map(async |(index, cursor)| {
                let segment = Segment { index, total: SEGMENTS };
                let page = store.scan_latest(segment, &filter, cursor, Some(PAGE_ITEMS)).await?;
                Ok::<_, OperationError>((index, page))
            });
            for (index, page) in try_join_all(pages).await? {
                let latest = page.items.into_iter().filter(|latest| latest.version.is_some());
                found.extend(latest.map(|latest| latest.entity));
                next.extend(page.next.map(|cursor| (index, Some(cursor))));
            }
            if next.is_empty() || found.len() >= MAX_ENTITIES {
                break;
            }
        }
        let is_complete = next.is_empty();
        // Entities selected before are kept while there is room.
        let previous: Vec<_> = self
            .entities
            .drain(..)
            .filter(|entity| !found.contains(entity))
            .collect();
        if !is_complete {
            found.extend(previous);
        }
        self.is_all = is_complete && found.len() <= MAX_ENTITIES;
        found.truncate(MAX_ENTITIES);
        self.entities = found;
        Ok(())
    }
}

fn is_older(time: Option<EpochMillis>, now: EpochMillis, than: Duration) -> bool {
    time.is_none_or(|time| u128::from(now.get().abs_diff(time.get())) >= than.as_millis())
}

/// Returns the versions per 1,000 seconds of the entities that are in both samples.
fn rate(
    before: &HashMap<EntityId, Version>,
    after: &HashMap<EntityId, Version>,
    from: EpochMillis,
    to: EpochMillis,
) -> Option<u64> {
    let elapsed = u64::try_from(to.get().checked_sub(from.get())?)
        .ok()
        .filter(|elapsed| *elapsed > 0)?;
    let created = before.iter().filter_map(|(entity, before)| {
        let after = after.get(entity)?;
        // A counter that was decreased counts as no versions.
        Some(after.get().saturating_sub(before.get()))
    });
    let created = created.fold(0_u64, u64::saturating_add);
    Some(created.saturating_mul(1_000_000) / elapsed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn latest(pairs: &[(&str, u64)]) -> HashMap<EntityId, Version> {
        let pair = |(id, version): &(&str, u64)| (EntityId::new(*id).unwrap(), Version::new(*version).unwrap());
        pairs.iter().map(pair).collect()
    }

    #[test]
    fn the_rate_counts_entities_of_both_samples() {
        let at = EpochMillis::new;
        for (before, after, millis, expected) in [
            (latest(&[("a", 1)]), latest(&[("a", 5)]), 2000, Some(2000)),
            (latest(&[("a", 1)]), latest(&[("a", 5), ("b", 90)]), 2000, Some(2000)),
            (latest(&[("a", 1), ("b", 90)]), latest(&[("a", 2)]), 4000, Some(250)),
            (
                latest(&[("a", 9), ("b", 1)]),
                latest(&[("a", 2), ("b", 2)]),
                1000,
                Some(1000),
            ),
            (latest(&[("a", 1)]), latest(&[("a", 5)]), 0, None),
            (latest(&[("a", 1)]), latest(&[("a", 5)]), -5, None),
            (latest(&[("a", 1)]), latest(&[("a", Version::MAX)]), 1, Some(u64::MAX)),
            (latest(&[]), latest(&[]), 1, Some(0)),
        ] {
            assert_eq!(
                rate(&before, &after, at(0), at(millis)),
                expected,
                "{before:?} {after:?} {millis}"
            );
        }
    }

    #[test]
    fn ages_are_compared() {
        let at = EpochMillis::new;
        assert!(is_older(None, at(0), MIN_INTERVAL));
        assert!(!is_older(Some(at(0)), at(1999), MIN_INTERVAL));
        assert!(is_older(Some(at(0)), at(2000), MIN_INTERVAL));
        // If the clock was set back, a sample is taken at once.
        assert!(is_older(Some(at(9000)), at(0), MIN_INTERVAL));
    }
}
