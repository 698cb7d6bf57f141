//! Which versions pruning takes away: all below a floor, so that what is left is dense, but for those that are pinned.

use std::collections::BTreeMap;

use super::{Item, audit::Collection, time::EpochMillis, version::Version, version_set::VersionSet, view::time_of};

/// What is to be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// So many of the newest versions, at least one.
    Newest(u64),
    /// What was the latest version at this time, and all after it.
    Since(EpochMillis),
}

/// The times of an entity's versions, as they say themselves.
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

/// What pruning does to an entity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Where history begins from now on. Never lower than before, and never above the latest version.
    pub floor: Version,
    /// Where it began before.
    pub before: Version,
    /// The versions to be marked.
    pub mark: VersionSet,
    /// How many are left below the floor because they are pinned or marked already.
    pub settled: u64,
    /// A version that is missing, and that the floor was not raised above: a gap is to be repaired, not hidden.
    pub stopped_at: Option<Version>,
}

/// Plans it. `over_gaps` raises the floor above what is missing.
///
/// By time, a version goes if the next one is older than that time too, so that the version that was the latest at any time
/// since is still there. A version whose time is not known stays, and so does everything after it.
pub fn plan(seen: &Collection, times: &Times, head: Version, keep: Keep, over_gaps: bool) -> Plan {
    let before = seen.floor();
    let wanted = match keep {
        Keep::Newest(count) => head.get().saturating_sub(count.max(1)) + 1,
        Keep::Since(time) => {
            let is_past = |version: &u64| times.0.get(version).is_some_and(|own| *own < time);
            let mut there = seen.versions().within(before.get(), head.get());
            there.insert(head.get());
            let later = there.numbers().skip_while(|version| *version <= before.get());
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

    fn planned(versions: &[(u64, Option<i64>)], floor: u64, head: u64, keep: Keep, over_gaps: bool) -> (u64, Vec<u64>) {
        let (collection, times) = seen(versions, floor);
        let plan = plan(&collection, &times, Version::new(head).unwrap(), keep, over_gaps);
        assert_eq!(plan.before.get(), floor);
        (plan.floor.get(), plan.mark.numbers().collect())
    }

    #[test]
    fn what_goes_is_below_the_floor() {
        let at = |number: u64| (number, i64::try_from(number).ok().map(|number| number * 10));
        let all: Vec<_> = (1..=6).map(at).collect();
        let since = |time| Keep::Since(EpochMillis::new(time));
        for (keep, floor, expected) in [
            (Keep::Newest(6), 1, (1, vec![])),
            (Keep::Newest(100), 1, (1, vec![])),
            (Keep::Newest(2), 1, (5, vec![1, 2, 3, 4])),
            (Keep::Newest(1), 1, (6, vec![1, 2, 3, 4, 5])),
            // The latest version stays, whatever is asked.
            (Keep::Newest(0), 1, (6, vec![1, 2, 3, 4, 5])),
            // The floor does not go down, and what is below it goes.
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
        // Version 4 tells no time, so 3 may have been the latest for long.
        let mut unknown = all.clone();
        unknown[3].1 = None;
        assert_eq!(planned(&unknown, 1, 6, since(1000), false), (3, vec![1, 2]));
        // A gap is not hidden, unless that is asked for.
        let gap: Vec<_> = all.iter().copied().filter(|(number, _)| *number != 3).collect();
        assert_eq!(planned(&gap, 1, 6, Keep::Newest(1), false), (3, vec![1, 2]));
        assert_eq!(planned(&gap, 1, 6, Keep::Newest(1), true), (6, vec![1, 2, 4, 5]));
        assert_eq!(planned(&gap, 1, 6, since(1000), false), (3, vec![1, 2]));
        assert_eq!(planned(&gap, 1, 6, since(1000), true), (6, vec![1, 2, 4, 5]));
        assert_eq!(planned(&[], 1, 1, Keep::Newest(1), false), (1, vec![]));
    }

    proptest! {
        #[test]
        fn every_time_since_can_still_be_read(
            steps in prop::collection::vec(0..5i64, 1..12),
            since in 0..50i64,
            at in 0..50i64,
        ) {
            let mut now = 0;
            let versions: Vec<_> = (1..).zip(steps).map(|(number, step)| { now += step; (number, Some(now)) }).collect();
            let head = versions.len() as u64;
            let (floor, mark) = planned(&versions, 1, head, Keep::Since(EpochMillis::new(since)), false);
            prop_assert_eq!(mark, (1..floor).collect::<Vec<_>>());
            let latest_at = versions.iter().rfind(|(_, time)| time.unwrap() <= at).map(|(number, _)| *number);
            if let Some(latest) = latest_at && at >= since {
                prop_assert!(latest >= floor, "version {} was the latest at {}, and the floor is {}", latest, at, floor);
            }
        }
    }
}
