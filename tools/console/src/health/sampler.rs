//! Samples of some entities: how many versions they make, and how far history is behind. Taken only while somebody looks.

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

/// How many entities are looked at.
pub(super) const ENTITIES: usize = 100;
/// How many of those that are behind are looked at closely.
const BEHIND: usize = 5;
/// No sample is taken sooner after another.
const BETWEEN: Duration = Duration::from_secs(2);
/// How long samples are kept.
pub(super) const KEPT: Duration = Duration::from_secs(30 * 60);
/// How long the same entities are looked at.
const SAME: Duration = Duration::from_secs(60);
/// Entities are looked for in so many parts of the table, in the first items of each: so many a page, so many pages.
const SEGMENTS: u32 = 16;
const ITEMS: i32 = 64;
const PAGES: usize = 4;

/// One sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Point {
    pub(super) at: EpochMillis,
    /// Versions in a thousand seconds since the sample before.
    pub(super) rate: Option<u64>,
    /// How many versions the latest items count that history does not have.
    pub(super) lag: u64,
}

/// The samples so far.
#[derive(Default)]
pub(crate) struct Samples {
    way: Option<(Store, Meter)>,
    entities: Vec<EntityId>,
    /// Whether there are no others.
    is_all: bool,
    found: Option<EpochMillis>,
    latest: HashMap<EntityId, Version>,
    tried: Option<EpochMillis>,
    points: VecDeque<Point>,
    units: f64,
    error: Option<String>,
}

/// What there is to be shown of them.
#[derive(Debug, Clone, Default)]
pub(super) struct Sampled {
    pub(super) points: Vec<Point>,
    pub(super) entities: usize,
    pub(super) is_all: bool,
    /// What the last sample cost.
    pub(super) units: f64,
    pub(super) error: Option<String>,
}

impl Samples {
    /// Takes a sample, if the last one is old enough, and says what there is.
    pub(super) async fn look(&mut self, connection: &Connection) -> Sampled {
        let now = time::now();
        if is_older(self.tried, now, BETWEEN) {
            self.tried = Some(now);
            self.error = self.take(connection, now).await.err().map(|error| chain(&error));
        }
        Sampled {
            points: self.points.iter().copied().collect(),
            entities: self.entities.len(),
            is_all: self.is_all,
            units: self.units,
            error: self.error.clone(),
        }
    }

    async fn take(&mut self, connection: &Connection, now: EpochMillis) -> Result<(), OperationError> {
        let (store, meter) = self.way.get_or_insert_with(|| connection.metered()).clone();
        if is_older(self.found, now, SAME) {
            self.find(&store).await?;
            self.found = Some(now);
        }
        let latest = store.latest_versions(&self.entities, false).await?;
        let lag = lag(&store, &latest).await?;
        // When the answer was there is closer to what it says than when it was asked for.
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
            .is_some_and(|first| is_older(Some(first.at), at, KEPT))
        {
            self.points.pop_front();
        }
        self.units = meter.take().iter().map(|charge| charge.units).sum();
        Ok(())
    }

    /// Finds entities to look at.
    async fn find(&mut self, store: &Store) -> Result<(), OperationError> {
        let wanted = LatestFilter::default();
        let mut next: Vec<_> = (0..SEGMENTS).map(|index| (index, None)).collect();
        let mut found: Vec<EntityId> = Vec::new();
        for _ in 0..PAGES {
            let pages = next.drain(..).map(async |(index, cursor)| {
                let segment = Segment { index, total: SEGMENTS };
                let page = store.scan_latest(segment, &wanted, cursor, Some(ITEMS)).await?;
                Ok::<_, OperationError>((index, page))
            });
            for (index, page) in try_join_all(pages).await? {
                let heads = page.items.into_iter().filter(|head| head.version.is_some());
                found.extend(heads.map(|head| head.entity));
                next.extend(page.next.map(|cursor| (index, Some(cursor))));
            }
            if next.is_empty() || found.len() >= ENTITIES {
                break;
            }
        }
        let is_whole = next.is_empty();
        // Those of before are looked at further, as far as there is room.
        let known: Vec<_> = self
            .entities
            .drain(..)
            .filter(|entity| !found.contains(entity))
            .collect();
        if !is_whole {
            found.extend(known);
        }
        self.is_all = is_whole && found.len() <= ENTITIES;
        found.truncate(ENTITIES);
        self.entities = found;
        Ok(())
    }
}

/// How many versions are not in history yet.
async fn lag(store: &Store, latest: &HashMap<EntityId, Version>) -> Result<u64, OperationError> {
    let heads: Vec<_> = latest
        .iter()
        .map(|(entity, version)| (entity.clone(), *version))
        .collect();
    let recorded = store.versions_in_history(&heads, false).await?;
    let (mut lag, mut looked_at) = (0, 0);
    for (entity, _) in heads.iter().filter(|(entity, _)| !recorded.contains(entity)) {
        looked_at += 1;
        // At least that one is not there.
        lag += match looked_at <= BEHIND {
            false => 1,
            true => store.lag(entity).await?.map_or(0, |lag| {
                lag.latest.get().saturating_sub(lag.through.map_or(0, Version::get))
            }),
        };
    }
    Ok(lag)
}

fn is_older(time: Option<EpochMillis>, now: EpochMillis, than: Duration) -> bool {
    time.is_none_or(|time| u128::from(now.get().abs_diff(time.get())) >= than.as_millis())
}

/// Versions in a thousand seconds, of the entities that both samples have.
fn rate(
    before: &HashMap<EntityId, Version>,
    after: &HashMap<EntityId, Version>,
    from: EpochMillis,
    to: EpochMillis,
) -> Option<u64> {
    let took = u64::try_from(to.get().checked_sub(from.get())?)
        .ok()
        .filter(|took| *took > 0)?;
    let made = before.iter().filter_map(|(entity, before)| {
        let after = after.get(entity)?;
        // A counter that was set back makes no versions.
        Some(after.get().saturating_sub(before.get()))
    });
    let made = made.fold(0_u64, u64::saturating_add);
    Some(made.saturating_mul(1_000_000) / took)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn latest(pairs: &[(&str, u64)]) -> HashMap<EntityId, Version> {
        let pair = |(id, version): &(&str, u64)| (EntityId::new(*id).unwrap(), Version::new(*version).unwrap());
        pairs.iter().map(pair).collect()
    }

    #[test]
    fn the_rate_is_of_the_same_entities() {
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
            (latest(&[("a", 1)]), latest(&[("a", u64::MAX)]), 1, Some(u64::MAX)),
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
    fn what_is_old() {
        let at = EpochMillis::new;
        assert!(is_older(None, at(0), BETWEEN));
        assert!(!is_older(Some(at(0)), at(1999), BETWEEN));
        assert!(is_older(Some(at(0)), at(2000), BETWEEN));
        // A clock that was set back is waited for no longer than that.
        assert!(is_older(Some(at(9000)), at(0), BETWEEN));
    }
}
