//! Prune plan: pruning removes every version below a floor, except pinned ones, so that the remaining versions are dense.

use std::collections::BTreeMap;

use super::{Item, audit::Collection, time::EpochMillis, version::Version, version_set::VersionSet, view::time_of};

/// Rule for the versions to keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// This number of newest versions, at least one.
    Newest(u64),
    /// The version that was the latest at this time, and all newer ones.
    Since(EpochMillis),
}

/// Times of an entity's versions.
#[derive(Debug, Clone, Default)]
pub struct Times(BTreeMap<u64, EpochMillis>);

impl Times {
    /// Adds the time of a version, if it has one.
    pub fn add(&mut self, version: Version, item: &Item) {
        if let Ok(time) = time_of(item) {
            self.0.insert(version.get(), time);
        }
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
}

/// Plans the pruning of an entity. With `over_gaps`, missing versions do not limit the floor.
///
/// With [`Keep::Since`], a version is removed if the next one is older than that time too: the version that was the latest
/// at any time since then remains. A version without a known time is kept, and so are all newer ones.
pub fn plan(seen: &Collection, times: &Times, latest: Version, keep: Keep, over_gaps: bool) -> Plan {
    let before = seen.floor();
    let wanted = match keep {
        Keep::Newest(count) => latest.get().saturating_sub(count.max(1)) + 1,
        Keep::Since(time) => {
            let is_past = |version: &u64| times.0.get(version).is_some_and(|own| *own < time);
            let mut existing = seen.versions().within(before.get(), latest.get());
            existing.insert(latest.get());
            let later = existing.numbers().skip_while(|version| *version <= before.get());
            later.take_while(is_past).last().unwrap_or(before.get())
        }
    };
    let wanted = wanted.max(before.get());
    let missing = seen.versions().gaps(before.get(), wanted - 1).ranges().next();
    let stopped_at = missing.map(|(first, _)| first).filter(|_| !over_gaps);
    let floor = stopped_at.unwrap_or(wanted);
    let mark = seen.unsettled().within(1, floor - 1);
    Plan {
        floor: Version::new(floor).unwrap_or(before),
        before,
        settled: seen.versions().within(1, floor - 1).len() - mark.len(),
        mark,
        stopped_at: stopped_at.and_then(Version::new),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::domain::keys::VersionDigits;

    /// Versions with their times; `None` for a version without one.
    fn seen(versions: &[(u64, Option<i64>)], floor: u64) -> (Collection, Times) {
        let (mut collection, mut times) = (Collection::default(), Times::default());
        let mut add = |item| collection.add(item, VersionDigits::default());
        add(serde_json::from_value(json!({"SK": {"S": "floor"}, "Floor": {"N": floor.to_string()}})).unwrap());
        for (number, time) in versions {
            let mut item = json!({"SK": {"S": format!("v{number}")}});
            if let Some(time) = time {
                item["Timestamp"] = json!({"N": time.to_string()});
            }
            let item: Item = serde_json::from_value(item).unwrap();
            times.add(Version::new(*number).unwrap(), &item);
            add(item);
        }
        (collection, times)
    }

    fn planned(
        versions: &[(u64, Option<i64>)],
        floor: u64,
        latest: u64,
        keep: Keep,
        over_gaps: bool,
    ) -> (u64, Vec<u64>) {
        let (collection, times) = seen(versions, floor);
        let plan = plan(&collection, &times, Version::new(latest).unwrap(), keep, over_gaps);
        assert_eq!(plan.before.get(), floor);
        (plan.floor.get(), plan.mark.numbers().collect())
    }

    #[test]
    fn versions_below_the_floor_are_marked() {
        let at = |number: u64| (number, i64::try_from(number).ok().map(|number| number * 10));
        let all: Vec<_> = (1..=6).map(at).collect();
        let since = |time| Keep::Since(EpochMillis::new(time));
        for (keep, floor, expected) in [
            (Keep::Newest(6), 1, (1, vec![])),
            (Keep::Newest(100), 1, (1, vec![])),
            (Keep::Newest(2), 1, (5, vec![1, 2, 3, 4])),
            (Keep::Newest(1), 1, (6, vec![1, 2, 3, 4, 5])),
            // The latest version is always kept.
            (Keep::Newest(0), 1, (6, vec![1, 2, 3, 4, 5])),
            // The floor is not lowered, and unmarked versions below it are marked.
            (Keep::Newest(5), 4, (4, vec![1, 2, 3])),
            (since(5), 1, (1, vec![])),
            (since(10), 1, (1, vec![])),
            // At 20, version 1 was the latest until just then.
            (since(20), 1, (1, vec![])),
            (since(21), 1, (2, vec![1])),
            (since(1000), 1, (6, vec![1, 2, 3, 4, 5])),
            (since(21), 4, (4, vec![1, 2, 3])),
        ] {
            assert_eq!(planned(&all, floor, 6, keep, false), expected, "{keep:?} {floor}");
        }
        // Version 4 has no time, so version 3 may have been the latest until now.
        let mut unknown = all.clone();
        unknown[3].1 = None;
        assert_eq!(planned(&unknown, 1, 6, since(1000), false), (3, vec![1, 2]));
        // A gap limits the floor, unless requested otherwise.
        let gap: Vec<_> = all.iter().copied().filter(|(number, _)| *number != 3).collect();
        assert_eq!(planned(&gap, 1, 6, Keep::Newest(1), false), (3, vec![1, 2]));
        assert_eq!(planned(&gap, 1, 6, Keep::Newest(1), true), (6, vec![1, 2, 4, 5]));
        assert_eq!(planned(&gap, 1, 6, since(1000), false), (3, vec![1, 2]));
        assert_eq!(planned(&gap, 1, 6, since(1000), true), (6, vec![1, 2, 4, 5]));
        assert_eq!(planned(&[], 1, 1, Keep::Newest(1), false), (1, vec![]));
    }

    proptest! {
        #[test]
        fn the_latest_version_at_any_time_since_is_kept(
            steps in prop::collection::vec(0..5i64, 1..12),
            since in 0..50i64,
            at in 0..50i64,
        ) {
            let mut now = 0;
            let versions: Vec<_> = (1..).zip(steps).map(|(number, step)| { now += step; (number, Some(now)) }).collect();
            let latest = versions.len() as u64;
            let (floor, mark) = planned(&versions, 1, latest, Keep::Since(EpochMillis::new(since)), false);
            prop_assert_eq!(mark, (1..floor).collect::<Vec<_>>());
            let latest_at = versions.iter().rfind(|(_, time)| time.unwrap() <= at).map(|(number, _)| *number);
            if let Some(latest) = latest_at && at >= since {
                prop_assert!(latest >= floor, "version {} was the latest at {}, and the floor is {}", latest, at, floor);
            }
        }
    }
}
