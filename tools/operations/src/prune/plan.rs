//! Prune plan: pruning removes every version below a floor, except pinned ones, so that the remaining versions are dense.
//!
//! A version's age counts from the time at which the next one was [recorded](shared::domain::recorded_at), not from the client's
//! `Time` or `Timestamp`, which can be any time.
//!
//! While the latest version is a tombstone, the version that an undelete restores is kept: the newest one that is no tombstone.
//!
//! No version is removed that the rule keeps: a version below the floor can be newer than the floor, if the counter was set back.

use std::collections::BTreeMap;

use crate::audit::collection::Collection;
use shared::domain::{
    Item, attached,
    attribution::Writer,
    keys::{LATEST_KEY, VersionDigits, sort_key_of},
    recorded_at::RecordedAt,
    tombstone::is_deleted,
    version::Version,
    version_item::{InvalidImage, latest_of},
    version_set::VersionSet,
};

/// Rule for the versions to keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// This number of newest versions, at least one.
    Newest(u64),
    /// The version that was the latest at this time, and all newer ones.
    Since(RecordedAt),
}

/// Items of an entity: what pruning needs to know of them.
#[derive(Clone, Default)]
pub struct Seen {
    collection: Collection,
    times: BTreeMap<u64, RecordedAt>,
    tombstones: VersionSet,
    /// Versions of an attached table that are late. `None` for another table.
    late: Option<VersionSet>,
}

impl Seen {
    /// Adds one of the entity's items, in any order.
    pub fn add(&mut self, item: Item, digits: VersionDigits) {
        if let Some((version, time)) = recorded(&item, digits) {
            self.times.insert(version.get(), time);
        }
        if let Some(version) = version_of(&item, digits).filter(|_| is_deleted(&item)) {
            self.tombstones.insert(version.get());
        }
        self.collection.add(item, digits);
    }

    /// Adds an item of the history of an attached table, in any order. The time of a late version says nothing about when the
    /// version before it was the latest.
    pub fn add_attached(&mut self, item: Item) {
        let late = self.late.get_or_insert_default();
        if let Some(version) = attached::digits().version_of_item(&item) {
            if item.contains_key(attached::item::LATE) {
                late.insert(version.get());
            } else if let Some(time) = RecordedAt::of(&item) {
                self.times.insert(version.get(), time);
            }
        }
        self.collection.add(item, attached::digits());
    }

    /// Returns the latest version, `None` without a latest item, and the greatest floor. An attached table has no latest items: the
    /// newest version is the latest one, and the newest one that is not late is not pruned either.
    fn latest(&self) -> Result<Option<(u64, u64)>, InvalidImage> {
        let Some(late) = &self.late else {
            let latest = self.collection.latest_version().transpose()?;
            return Ok(latest.map(|latest| (latest.get(), self.newest_state(latest.get()))));
        };
        let Some(newest) = self.collection.versions().last() else {
            return Ok(None);
        };
        let in_order = self.collection.versions().without(late).last();
        Ok(Some((newest, in_order.unwrap_or(newest))))
    }

    /// Returns the newest version up to the latest that is no tombstone, or the latest one if history has only tombstones.
    fn newest_state(&self, latest: u64) -> u64 {
        let mut number = latest;
        while self.tombstones.contains(number) {
            number -= 1;
        }
        if number == 0 { latest } else { number }
    }

    /// Returns the summary for an audit.
    pub fn collection(&self) -> &Collection {
        &self.collection
    }

    /// Plans the pruning of the entity, `None` without a latest item. With `over_gaps`, missing versions do not limit the
    /// floor.
    ///
    /// With [`Keep::Since`], a version is removed if the next one is older than that time: the version that was the latest
    /// at any time since then remains. Times increase with the versions, so the known time of a later version is
    /// sufficient. A version is kept if no later version with a known time is old enough.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidImage`] if the latest item has no valid version, or one below the floor.
    pub fn plan(&self, keep: Keep, over_gaps: bool) -> Result<Option<Plan>, InvalidImage> {
        let Some((latest, greatest)) = self.latest()? else {
            return Ok(None);
        };
        let before = self.collection.floor();
        if latest < before.get() {
            return Err(InvalidImage::LatestBelowFloor);
        }
        let versions = self.collection.versions();
        let wanted = match keep {
            Keep::Newest(count) => latest.saturating_sub(count.max(1)) + 1,
            Keep::Since(since) => {
                let known = self.times.range(..=latest);
                let old = known.take_while(|(_, time)| **time < since).last();
                old.map_or(1, |(version, _)| *version)
            }
        };
        let wanted = wanted.min(greatest);
        // The versions below the floor of an interrupted run, and those that were created below it.
        let leftover = wanted.min(before.get());
        let wanted = wanted.max(before.get());
        let missing = versions.gaps(before.get(), wanted - 1).ranges().next();
        let stopped_at = missing.map(|(first, _)| first).filter(|_| !over_gaps);
        let floor = stopped_at.unwrap_or(wanted);
        let unsettled = self.collection.unsettled();
        let below_floor = unsettled.within(1, floor - 1);
        let kept = unsettled.within(leftover, before.get() - 1);
        Ok(Some(Plan {
            floor: Version::new(floor).unwrap_or(before),
            before,
            settled: versions.within(1, floor - 1).len() - below_floor.len(),
            mark: below_floor.without(&kept),
            stopped_at: stopped_at.and_then(Version::new),
            undated: match keep {
                Keep::Newest(_) => 0,
                Keep::Since(_) => self.undated(floor, latest),
            },
        }))
    }

    /// Returns the number of versions of a range without a known time.
    fn undated(&self, from: u64, latest: u64) -> u64 {
        let mut versions = self.collection.versions().clone();
        versions.insert(latest);
        let late = self.late.clone().unwrap_or_default();
        let versions = versions.within(from, latest).without(&late);
        versions
            .numbers()
            .filter(|version| !self.times.contains_key(version))
            .count() as u64
    }
}

/// Returns the version of a version item or a latest item, and the time at which it was recorded.
fn recorded(item: &Item, digits: VersionDigits) -> Option<(Version, RecordedAt)> {
    let version = version_of(item, digits)?;
    if sort_key_of(item) != Some(LATEST_KEY) {
        return Some((version, RecordedAt::of(item)?));
    }
    let latest = version;
    // The time of an item that another program wrote belongs to an older version.
    let is_own = Writer::of(item, latest) == Writer::Own;
    Some((latest, RecordedAt::of_latest(item).filter(|_| is_own)?))
}

/// Returns the version of a version item or a latest item.
fn version_of(item: &Item, digits: VersionDigits) -> Option<Version> {
    match sort_key_of(item)? {
        LATEST_KEY => latest_of(item).ok(),
        key => digits.version_of(key),
    }
}

/// Effect of pruning on an entity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// New first version of history: not lower than before, and not above the latest version.
    pub floor: Version,
    /// First version of history before pruning.
    pub before: Version,
    /// Versions to mark.
    pub mark: VersionSet,
    /// Number of versions below the floor that are pinned or marked already.
    pub settled: u64,
    /// Missing version that limits the floor: a gap must be repaired, not hidden.
    pub stopped_at: Option<Version>,
    /// With [`Keep::Since`], number of versions from the floor on whose time is not known.
    pub undated: u64,
}

impl Plan {
    /// Returns `true` if the entity is already pruned as planned.
    pub fn is_done(&self) -> bool {
        self.floor == self.before && self.mark.is_empty()
    }
}

#[cfg(test)]
mod tests;
