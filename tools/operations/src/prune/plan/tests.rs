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

#[test]
fn the_newest_version_of_an_attached_table_that_is_not_late_is_kept() {
    // Numbers, times, and whether a version is late.
    let versions = [
        (1, 10, false),
        (2, 20, false),
        (3, 30, false),
        (4, 5, true),
        (5, 15, true),
    ];
    let mut seen = Seen::default();
    assert!(seen.plan(Keep::Newest(1), false).unwrap().is_none());
    for (number, second, is_late) in versions {
        let mut item = version(number, Some(second));
        item["SK"] = json!({"S": format!("v{number:010}")});
        if is_late {
            item["Late"] = json!({"BOOL": true});
        }
        seen.add_attached(serde_json::from_value(item).unwrap());
    }
    for (keep, expected) in [
        (Keep::Newest(1), (3, vec![1, 2])),
        (Keep::Newest(4), (2, vec![1])),
        (Keep::Newest(5), (1, vec![])),
        (Keep::Since(at(1000)), (3, vec![1, 2])),
        // The late version does not show that version 2 was replaced by then.
        (Keep::Since(at(25)), (2, vec![1])),
    ] {
        let plan = seen.plan(keep, false).unwrap().unwrap();
        assert_eq!((effect(&plan), plan.undated), (expected, 0), "{keep:?}");
    }
}

#[test]
fn the_version_before_a_tombstone_is_kept_while_the_tombstone_is_the_latest() {
    let plan = |tombstones: &[u64], number: u64, keep: Keep| {
        let deleted = |mut item: Value| {
            item["Deleted"] = json!({"BOOL": true});
            item
        };
        let versions = (1..=number).map(|number| (tombstones.contains(&number), version(number, Some(number))));
        let latest = [(tombstones.contains(&number), latest(number))];
        let items = versions.chain(latest);
        let items = items.map(|(is_deleted, item)| if is_deleted { deleted(item) } else { item });
        let plan = seen(items).plan(keep, false).unwrap().unwrap();
        effect(&plan)
    };
    for (tombstones, number, expected) in [
        (&[][..], 4, (4, vec![1, 2, 3])),
        (&[4], 4, (3, vec![1, 2])),
        (&[2, 3, 4], 4, (1, vec![])),
        // Entities that have nothing but tombstones, and such that were revived.
        (&[1, 2], 2, (2, vec![1])),
        (&[3], 4, (4, vec![1, 2, 3])),
    ] {
        for keep in [Keep::Newest(1), Keep::Since(at(1000))] {
            assert_eq!(plan(tombstones, number, keep), expected, "{tombstones:?} {keep:?}");
        }
    }
    // It limits a rule that keeps less, and no other.
    assert_eq!(plan(&[4], 4, Keep::Newest(3)), (2, vec![1]));
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
