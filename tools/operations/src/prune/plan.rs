//! Prune plan: pruning removes every version below a floor, except pinned ones, so that the remaining versions are dense.
//!
//! A version's age counts from the time at which the next one was [recorded](shared::domain::recorded_at), not from the client's
//! `Time` or `Timestamp`, which can be any time.
//!
//! While the latest version is a tombstone, the version that an undelete restores is kept: the newest one that is no tombstone.
//!
//! No version is removed that the rule keeps: a version below the floor can be newer than the floor, if the counter was set back.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{audit::collection::Collection, version_set::VersionSet};
use shared::domain::{recorded_at::RecordedAt, version::Version, version_item::InvalidImage};

/// Rule for the versions to keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Rule {
    /// This number of newest versions, at least one.
    Keep(u64),
    /// The versions that were the latest at some time within this age.
    OlderThan(Duration),
}

/// Options of a pruning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Options {
    pub rule: Rule,
    /// Period in which marked versions can still be read.
    pub grace: Duration,
    /// `true` if missing versions do not limit the floor.
    pub over_gaps: bool,
    pub dry_run: bool,
}

/// Plans the pruning of an entity of which these items were seen, `None` without a latest item. The age of a version is that at the time
/// `now` since 1970.
///
/// With [`Rule::OlderThan`], a version is removed if the next one is older: the version that was the latest at any time within
/// the age remains. Times increase with the versions, so the known time of a later version is sufficient. A version is kept if
/// no later version with a known time is old enough.
///
/// # Errors
///
/// Returns [`InvalidImage`] if the latest item has no valid version, or one below the floor.
pub fn plan(seen: &Collection, options: &Options, now: Duration) -> Result<Option<Plan>, InvalidImage> {
    let Some(latest) = seen.latest_version().transpose()?.map(Version::get) else {
        return Ok(None);
    };
    let before = seen.floor();
    if latest < before.get() {
        return Err(InvalidImage::LatestBelowFloor);
    }
    let versions = &seen.versions;
    let wanted = match options.rule {
        Rule::Keep(count) => latest.saturating_sub(count.max(1)) + 1,
        Rule::OlderThan(age) => {
            let since = RecordedAt::since_epoch(now.saturating_sub(age));
            let known = seen.times.range(..=latest);
            let old = known.take_while(|(_, time)| **time < since).last();
            old.map_or(1, |(version, _)| *version)
        }
    };
    // An attached table has no latest items: the newest version is the latest one, and the newest one that is not late is kept. In
    // another table, the newest version that is no tombstone is kept, if there is one. A version that is missing can be a tombstone.
    let mut counted = versions.within(1, latest);
    counted.insert(latest);
    let greatest = match seen.is_attached {
        true => versions.without(&seen.late).last(),
        false => counted.without(&seen.tombstones).last(),
    };
    let wanted = wanted.min(greatest.unwrap_or(latest));
    // The versions below the floor of an interrupted run, and those that were created below it.
    let leftover = wanted.min(before.get());
    let wanted = wanted.max(before.get());
    let missing = versions.gaps(before.get(), wanted - 1).ranges().next();
    let stopped_at = missing.map(|(first, _)| first).filter(|_| !options.over_gaps);
    let floor = stopped_at.unwrap_or(wanted);
    let below_floor = seen.unsettled().within(1, floor - 1);
    let kept = seen.unsettled().within(leftover, before.get() - 1);
    let undated = match options.rule {
        Rule::Keep(_) => 0,
        Rule::OlderThan(_) => {
            let in_order = counted.within(floor, latest).without(&seen.late);
            let undated = in_order.numbers().filter(|version| !seen.times.contains_key(version));
            undated.count() as u64
        }
    };
    Ok(Some(Plan {
        floor: Version::new(floor).unwrap_or(before),
        before,
        settled: versions.within(1, floor - 1).len() - below_floor.len(),
        mark: below_floor.without(&kept),
        stopped_at: stopped_at.and_then(Version::new),
        undated,
    }))
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
    /// With [`Rule::OlderThan`], number of versions from the floor on whose time is not known.
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
