//! Prune plan: pruning removes every version below a floor, except pinned ones, so that the remaining versions are dense.
//!
//! A version's age counts from the time at which the next one was [recorded](super::recorded_at), not from the client's
//! `Time` or `Timestamp`, which can be any time.
//!
//! No version is removed that the rule keeps: a version below the floor can be newer than the floor, if the counter was set back.

use std::collections::BTreeMap;

use super::{
    Item,
    attribution::Writer,
    audit::Collection,
    keys::{LATEST_KEY, VersionDigits, sort_key_of},
    recorded_at::RecordedAt,
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
}

impl Seen {
    /// Adds one of the entity's items, in any order.
    pub fn add(&mut self, item: Item, digits: VersionDigits) {
        if let Some((version, time)) = recorded(&item, digits) {
            self.times.insert(version.get(), time);
        }
        self.collection.add(item, digits);
    }

    /// Returns the number of items that were added.
    pub fn items(&self) -> u64 {
        self.collection.items()
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
        let Some(latest) = self.collection.latest_version().transpose()? else {
            return Ok(None);
        };
        let (latest, before) = (latest.get(), self.collection.floor());
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
        let versions = versions.within(from, latest);
        versions
            .numbers()
            .filter(|version| !self.times.contains_key(version))
            .count() as u64
    }
}

/// Returns the version of a version item or a latest item, and the time at which it was recorded.
fn recorded(item: &Item, digits: VersionDigits) -> Option<(Version, RecordedAt)> {
    let key = sort_key_of(item)?;
    if key != LATEST_KEY {
        return Some((digits.version_of(key)?, RecordedAt::of(item)?));
    }
    let latest = latest_of(item).ok()?;
    // The time of an item that another program wrote belongs to an older version.
    let is_own = Writer::of(item, latest) == Writer::Own;
    Some((latest, RecordedAt::of_latest(item).filter(|_| is_own)?))
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
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn at(second: u64) -> RecordedAt {
        RecordedAt::since_epoch(Duration::from_secs(second))
    }

    fn seen(items: impl IntoIterator<Item = Value>) -> Seen {
        let mut seen = Seen::default();
        for item in items {
            seen.add(serde_json::from_value(item).unwrap(), VersionDigits::default());
        }
        seen
    }

    fn version(number: u64, recorded: Option<u64>) -> Value {
        let mut item = json!({"SK": {"S": format!("v{number}")}});
        if let Some(second) = recorded {
            item["RecordedAt"] = json!({"S": at(second).to_string()});
        }
        item
    }

    fn latest(number: u64) -> Value {
        json!({"SK": {"S": "v0"}, "Latest": {"N": number.to_string()}})
    }

    /// Plans for versions with their times in seconds; `None` for a version without one.
    fn planned(versions: &[(u64, Option<u64>)], floor: u64, number: u64, keep: Keep, over_gaps: bool) -> Plan {
        let first = [
            json!({"SK": {"S": "floor"}, "Floor": {"N": floor.to_string()}}),
            latest(number),
        ];
        let versions = versions.iter().map(|(number, second)| version(*number, *second));
        let plan = seen(first.into_iter().chain(versions))
            .plan(keep, over_gaps)
            .unwrap()
            .unwrap();
        assert_eq!(plan.before.get(), floor);
        plan
    }

    fn effect(plan: &Plan) -> (u64, Vec<u64>) {
        (plan.floor.get(), plan.mark.numbers().collect())
    }

    #[test]
    fn versions_below_the_floor_are_marked() {
        let all: Vec<_> = (1..=6).map(|number| (number, Some(number * 10))).collect();
        let since = |second| Keep::Since(at(second));
        for (keep, floor, expected) in [
            (Keep::Newest(6), 1, (1, vec![])),
            (Keep::Newest(100), 1, (1, vec![])),
            (Keep::Newest(2), 1, (5, vec![1, 2, 3, 4])),
            (Keep::Newest(1), 1, (6, vec![1, 2, 3, 4, 5])),
            // The latest version is always kept.
            (Keep::Newest(0), 1, (6, vec![1, 2, 3, 4, 5])),
            // The floor is not lowered. Unmarked versions below it are marked, unless the rule keeps them.
            (Keep::Newest(3), 4, (4, vec![1, 2, 3])),
            (Keep::Newest(5), 4, (4, vec![1])),
            (Keep::Newest(100), 4, (4, vec![])),
            (Keep::Newest(1), 4, (6, vec![1, 2, 3, 4, 5])),
            (since(5), 1, (1, vec![])),
            (since(10), 1, (1, vec![])),
            // At 20, version 1 was the latest until just then.
            (since(20), 1, (1, vec![])),
            (since(21), 1, (2, vec![1])),
            (since(1000), 1, (6, vec![1, 2, 3, 4, 5])),
            (since(41), 4, (4, vec![1, 2, 3])),
            (since(21), 4, (4, vec![1])),
            (since(5), 4, (4, vec![])),
        ] {
            let plan = planned(&all, floor, 6, keep, false);
            assert_eq!((effect(&plan), plan.undated), (expected, 0), "{keep:?} {floor}");
        }
        // A gap limits the floor, unless requested otherwise.
        let gap: Vec<_> = all.iter().copied().filter(|(number, _)| *number != 3).collect();
        for keep in [Keep::Newest(1), since(1000)] {
            assert_eq!(effect(&planned(&gap, 1, 6, keep, false)), (3, vec![1, 2]));
            assert_eq!(effect(&planned(&gap, 1, 6, keep, true)), (6, vec![1, 2, 4, 5]));
        }
        let nothing = planned(&[], 1, 1, Keep::Newest(1), false);
        assert!(nothing.is_done());
    }

    #[test]
    fn no_version_is_marked_while_the_counter_is_below_the_floor() {
        let floor = json!({"SK": {"S": "floor"}, "Floor": {"N": "5"}});
        for number in 1..=4 {
            let set_back = seen([
                floor.clone(),
                latest(number),
                version(1, Some(10)),
                version(9, Some(20)),
            ]);
            for keep in [Keep::Newest(1), Keep::Since(at(1000))] {
                assert_eq!(set_back.plan(keep, true), Err(InvalidImage::LatestBelowFloor));
            }
        }
    }

    #[test]
    fn versions_that_were_created_below_the_floor_are_kept_as_long_as_the_rule_keeps_them() {
        // Versions 1 and 2 were created after versions up to 5 had been pruned, and a repair continued with 6.
        let created = [(1, Some(100)), (2, Some(110)), (6, Some(120))];
        for (keep, marked) in [
            (Keep::Since(at(90)), vec![]),
            (Keep::Since(at(115)), vec![1]),
            (Keep::Since(at(130)), vec![1, 2]),
            (Keep::Newest(100), vec![]),
            (Keep::Newest(1), vec![1, 2]),
        ] {
            assert_eq!(effect(&planned(&created, 6, 6, keep, false)), (6, marked), "{keep:?}");
        }
    }

    #[test]
    fn the_time_of_the_client_is_not_used() {
        // An update without a time inherits the old one.
        let inherited = |number| {
            let mut item = version(number, Some(1_000 + number));
            item["Time"] = json!({"S": "1970-01-01T00:00:01"});
            item["Timestamp"] = json!({"N": "1000"});
            item
        };
        let seen = seen((1..=6).map(inherited).chain([latest(6)]));
        let plan = |since| seen.plan(Keep::Since(at(since)), false).unwrap().unwrap();
        assert!(plan(1_000).is_done());
        assert_eq!(effect(&plan(1_005)), (4, vec![1, 2, 3]));
    }

    #[test]
    fn a_version_without_a_time_is_kept_unless_a_later_one_is_old() {
        let old = [(1, None), (2, None), (3, None)];
        let plan = planned(&old, 1, 3, Keep::Since(at(1_000)), false);
        assert_eq!((effect(&plan), plan.undated), ((1, vec![]), 3));
        assert_eq!(planned(&old, 1, 3, Keep::Newest(1), false).undated, 0);
        // Times increase: version 2 was recorded before version 4.
        let mixed = [(1, None), (2, None), (3, None), (4, Some(40)), (5, None), (6, Some(60))];
        let plan = planned(&mixed, 1, 6, Keep::Since(at(50)), false);
        assert_eq!((effect(&plan), plan.undated), ((4, vec![1, 2, 3]), 1));
        // Times that do not increase: version 2 is kept, because version 3 is newer.
        let broken = [(1, Some(10)), (2, Some(20)), (3, Some(90)), (4, Some(40))];
        assert_eq!(
            effect(&planned(&broken, 1, 4, Keep::Since(at(50)), false)),
            (2, vec![1])
        );
    }

    #[test]
    fn the_time_of_the_latest_item_counts_unless_another_program_wrote_the_item() {
        let plan = |recorded_version: Option<Value>, tick: u64, since| {
            let mut head = latest(3);
            head["RecordedAt"] = json!({"S": at(30).to_string()});
            head["RecordedTick"] = json!({"N": tick.to_string()});
            if let Some(version) = recorded_version {
                head["RecordedVersion"] = version;
            }
            // Version item 3 is not stored yet.
            let seen = seen([version(1, Some(10)), version(2, Some(20)), head]);
            effect(&seen.plan(Keep::Since(since), false).unwrap().unwrap())
        };
        for own in [Some(json!({"N": "3"})), Some(json!({"N": "3.0"}))] {
            assert_eq!(plan(own.clone(), 0, at(31)), (3, vec![1, 2]), "{own:?}");
            assert_eq!(plan(own.clone(), 1, at(30).after_ticks(1)), (2, vec![1]), "{own:?}");
        }
        for other in [None, Some(json!({"N": "2"})), Some(json!({"S": "3"}))] {
            assert_eq!(plan(other, 0, at(31)), (2, vec![1]));
        }
    }

    #[test]
    fn an_entity_needs_a_valid_latest_item() {
        let keep = Keep::Newest(1);
        assert_eq!(seen([version(1, None)]).plan(keep, false), Ok(None));
        let broken = seen([json!({"SK": {"S": "v0"}}), version(1, None)]);
        assert_eq!(broken.plan(keep, false), Err(InvalidImage::NoLatest));
    }

    proptest! {
        #[test]
        fn the_latest_version_at_any_time_since_is_kept(
            steps in prop::collection::vec((1..5u64, any::<bool>()), 1..12),
            since in 0..50u64,
            time in 0..50u64,
        ) {
            let mut now = 0;
            let versions: Vec<_> = (1..).zip(steps).map(|(number, (step, known))| {
                now += step;
                (number, now, known)
            }).collect();
            let known: Vec<_> = versions.iter().map(|(number, time, known)| (*number, known.then_some(*time))).collect();
            let latest = versions.len() as u64;
            let plan = planned(&known, 1, latest, Keep::Since(at(since)), false);
            let (floor, mark) = effect(&plan);
            prop_assert_eq!(mark, (1..floor).collect::<Vec<_>>());
            let latest_at = versions.iter().rfind(|(_, own, _)| *own <= time).map(|(number, ..)| *number);
            if let Some(latest) = latest_at && time >= since {
                prop_assert!(latest >= floor, "version {} was the latest at {}, and the floor is {}", latest, time, floor);
            }
            // No version remains that is known to be old enough.
            let old = known.iter().rfind(|(_, time)| time.is_some_and(|time| time < since));
            prop_assert_eq!(floor, old.map_or(1, |(number, _)| *number));
            let undated = known.iter().filter(|(number, time)| *number >= floor && time.is_none()).count();
            prop_assert_eq!(plan.undated, undated as u64);
        }
    }
}
