use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json};
use shared::domain::{attached, keys::VersionDigits};

use super::*;

fn at(second: u64) -> RecordedAt {
    RecordedAt::since_epoch(Duration::from_secs(second))
}

/// Time of the plan.
const NOW: Duration = Duration::from_secs(100_000);

fn since(second: u64) -> Rule {
    Rule::OlderThan(NOW.saturating_sub(Duration::from_secs(second)))
}

fn planned(seen: &Collection, rule: Rule, over_gaps: bool) -> Result<Option<Plan>, InvalidImage> {
    let options = Options {
        rule,
        grace: Duration::ZERO,
        over_gaps,
        dry_run: false,
    };
    plan(seen, &options, NOW)
}

/// Returns the item of a word: `latest=6`, `floor=3`, version `6` without a time, or `6@20` that was recorded at this second. It can
/// have a mark, as in `6@20+Late`.
fn item(word: &str, digits: VersionDigits) -> Value {
    let (word, mark) = word.split_once('+').unwrap_or((word, ""));
    let (number, second) = word.split_once('@').unwrap_or((word, ""));
    let mut item = match (word.strip_prefix("latest="), word.strip_prefix("floor=")) {
        (Some(latest), _) => json!({"SK": {"S": "v0"}, "Latest": {"N": latest}}),
        (_, Some(floor)) => json!({"SK": {"S": "floor"}, "Floor": {"N": floor}}),
        _ => json!({"SK": {"S": format!("v{number:0>width$}", width = digits.get().into())}}),
    };
    if let Ok(second) = second.parse() {
        item["RecordedAt"] = json!({"S": at(second).to_string()});
    }
    if !mark.is_empty() {
        item[mark] = json!({"BOOL": true});
    }
    item
}

fn add(seen: &mut Collection, item: Value) {
    seen.add(serde_json::from_value(item).unwrap());
}

fn collection(items: &str, digits: VersionDigits) -> Collection {
    let mut seen = Collection::new(digits, digits == attached::digits());
    for word in items.split_whitespace() {
        add(&mut seen, item(word, digits));
    }
    seen
}

fn seen(items: &str) -> Collection {
    collection(items, VersionDigits::default())
}

/// Returns the floor and the marked versions, and the number of versions without a known time: `4: 1 2 3, 1 undated`.
fn effect(seen: &Collection, rule: Rule, over_gaps: bool) -> String {
    let plan = planned(seen, rule, over_gaps).unwrap().unwrap();
    assert_eq!(plan.before, seen.floor());
    assert_eq!(plan.is_done(), plan.floor == plan.before && plan.mark.is_empty());
    let marked: Vec<_> = plan.mark.numbers().map(|number| format!(" {number}")).collect();
    let effect = format!("{}:{}", plan.floor, marked.concat());
    match plan.undated {
        0 => effect,
        undated => format!("{effect}, {undated} undated"),
    }
}

#[test]
fn the_newest_version_of_an_attached_table_that_is_not_late_is_kept() {
    assert_eq!(planned(&seen(""), Rule::Keep(1), false), Ok(None));
    let seen = collection("1@10 2@20 3@30 4@5+Late 5@15+Late", attached::digits());
    for (keep, expected) in [
        (Rule::Keep(1), "3: 1 2"),
        (Rule::Keep(4), "2: 1"),
        (Rule::Keep(5), "1:"),
        (since(1000), "3: 1 2"),
        // The late version does not show that version 2 was replaced by then.
        (since(25), "2: 1"),
    ] {
        assert_eq!(effect(&seen, keep, false), expected, "{keep:?}");
    }
}

#[test]
fn the_version_before_a_tombstone_is_kept_while_the_tombstone_is_the_latest() {
    for (items, expected) in [
        ("1@1 2@2 3@3 4@4 latest=4", "4: 1 2 3"),
        ("1@1 2@2 3@3 4@4+Deleted latest=4+Deleted", "3: 1 2"),
        ("1@1 2@2+Deleted 3@3+Deleted 4@4+Deleted latest=4+Deleted", "1:"),
        // The version that is missing can be a tombstone, too.
        ("1@1 2@2+Deleted 4@4+Deleted latest=4+Deleted", "1:"),
        // Entities that have nothing but tombstones, and such that were revived.
        ("1@1+Deleted 2@2+Deleted latest=2+Deleted", "2: 1"),
        ("1@1 2@2 3@3+Deleted 4@4 latest=4", "4: 1 2 3"),
    ] {
        for keep in [Rule::Keep(1), since(1000)] {
            assert_eq!(effect(&seen(items), keep, false), expected, "{items} {keep:?}");
        }
    }
    // It limits a rule that keeps less, and no other.
    let seen = seen("1 2 3 4+Deleted latest=4+Deleted");
    assert_eq!(effect(&seen, Rule::Keep(3), false), "2: 1");
}

#[test]
fn versions_below_the_floor_are_marked() {
    let all = "1@10 2@20 3@30 4@40 5@50 6@60 latest=6 floor=";
    let gap = "1@10 2@20 4@40 5@50 6@60 latest=6 floor=";
    // Versions 1 and 2 were created after versions up to 5 had been pruned, and a repair continued with 6.
    let created = "1@100 2@110 6@120 latest=6 floor=";
    for (items, floor, keep, over_gaps, expected) in [
        (all, 1, Rule::Keep(6), false, "1:"),
        (all, 1, Rule::Keep(100), false, "1:"),
        (all, 1, Rule::Keep(2), false, "5: 1 2 3 4"),
        (all, 1, Rule::Keep(1), false, "6: 1 2 3 4 5"),
        // The latest version is always kept.
        (all, 1, Rule::Keep(0), false, "6: 1 2 3 4 5"),
        // The floor is not lowered. Unmarked versions below it are marked, unless the rule keeps them.
        (all, 4, Rule::Keep(3), false, "4: 1 2 3"),
        (all, 4, Rule::Keep(5), false, "4: 1"),
        (all, 4, Rule::Keep(100), false, "4:"),
        (all, 4, Rule::Keep(1), false, "6: 1 2 3 4 5"),
        (all, 1, since(5), false, "1:"),
        (all, 1, since(10), false, "1:"),
        // At 20, version 1 was the latest until just then.
        (all, 1, since(20), false, "1:"),
        (all, 1, since(21), false, "2: 1"),
        (all, 1, since(1000), false, "6: 1 2 3 4 5"),
        (all, 4, since(41), false, "4: 1 2 3"),
        (all, 4, since(21), false, "4: 1"),
        (all, 4, since(5), false, "4:"),
        // A gap limits the floor, unless requested otherwise.
        (gap, 1, Rule::Keep(1), false, "3: 1 2"),
        (gap, 1, Rule::Keep(1), true, "6: 1 2 4 5"),
        (gap, 1, since(1000), false, "3: 1 2"),
        (gap, 1, since(1000), true, "6: 1 2 4 5"),
        (created, 6, since(90), false, "6:"),
        (created, 6, since(115), false, "6: 1"),
        (created, 6, since(130), false, "6: 1 2"),
        (created, 6, Rule::Keep(100), false, "6:"),
        (created, 6, Rule::Keep(1), false, "6: 1 2"),
        ("latest=1 floor=", 1, Rule::Keep(1), false, "1:"),
    ] {
        let seen = seen(&format!("{items}{floor}"));
        assert_eq!(effect(&seen, keep, over_gaps), expected, "{items}{floor} {keep:?}");
    }
}

#[test]
fn an_entity_needs_a_valid_latest_item_at_or_above_the_floor() {
    for (items, expected) in [
        ("1", Ok(None)),
        ("v0 1", Err(InvalidImage::NoLatest)),
        ("floor=5 latest=1 1@10 9@20", Err(InvalidImage::LatestBelowFloor)),
        ("floor=5 latest=4 1@10 9@20", Err(InvalidImage::LatestBelowFloor)),
    ] {
        let mut seen = seen(items.trim_start_matches("v0"));
        if items.starts_with("v0") {
            add(&mut seen, json!({"SK": {"S": "v0"}}));
        }
        for keep in [Rule::Keep(1), since(1000)] {
            assert_eq!(planned(&seen, keep, true), expected, "{items}");
        }
    }
}

#[test]
fn a_version_without_a_time_is_kept_unless_a_later_one_is_old() {
    for (items, keep, expected) in [
        ("1 2 3 latest=3", since(1_000), "1:, 3 undated"),
        ("1 2 3 latest=3", Rule::Keep(1), "3: 1 2"),
        // Times increase: version 2 was recorded before version 4.
        ("1 2 3 4@40 5 6@60 latest=6", since(50), "4: 1 2 3, 1 undated"),
        // Times that do not increase: version 2 is kept, because version 3 is newer.
        ("1@10 2@20 3@90 4@40 latest=4", since(50), "2: 1"),
    ] {
        assert_eq!(effect(&seen(items), keep, false), expected, "{items}");
    }
}

#[test]
fn only_the_times_of_writers_and_streams_count() {
    let digits = VersionDigits::default();
    // An update without a time of the client inherits the old one.
    let mut inherited = seen("latest=6");
    for number in 1..=6 {
        let mut version = item(&format!("{number}@{}", 1_000 + number), digits);
        (version["Time"], version["Timestamp"]) = (json!({"S": "1970-01-01T00:00:01"}), json!({"N": "1000"}));
        add(&mut inherited, version);
    }
    assert_eq!(effect(&inherited, since(1_000), false), "1:");
    assert_eq!(effect(&inherited, since(1_005), false), "4: 1 2 3");
    // The time of the latest item counts unless another program wrote the item. Version item 3 is not stored yet.
    for (recorded_version, second, expected) in [
        (json!({"N": "3"}), 31, "3: 1 2"),
        (json!({"N": "3.0"}), 31, "3: 1 2"),
        (json!({"N": "3"}), 30, "2: 1"),
        (json!({"NULL": true}), 31, "2: 1, 1 undated"),
        (json!({"N": "2"}), 31, "2: 1, 1 undated"),
        (json!({"S": "3"}), 31, "2: 1, 1 undated"),
    ] {
        let mut latest = item("latest=3@30", digits);
        latest["Latest"] = json!({"N": "3"});
        latest["RecordedVersion"] = recorded_version;
        let (mut seen, shown) = (seen("1@10 2@20"), latest.to_string());
        add(&mut seen, latest);
        assert_eq!(effect(&seen, since(second), false), expected, "{shown}");
    }
}

proptest! {
    #[test]
    fn the_latest_version_at_any_time_since_is_kept(
        steps in prop::collection::vec((1..5u64, any::<bool>()), 1..12),
        begin in 0..50u64,
        time in 0..50u64,
    ) {
        let mut now = 0;
        let versions: Vec<_> = (1..).zip(steps).map(|(number, (step, known))| {
            now += step;
            (number, now, known)
        }).collect();
        let word = |(number, time, known): &(u64, u64, bool)| match known {
            true => format!("{number}@{time}"),
            false => number.to_string(),
        };
        let latest = format!("latest={}", versions.len());
        let items: Vec<_> = versions.iter().map(word).chain([latest]).collect();
        let plan = planned(&seen(&items.join(" ")), since(begin), false).unwrap().unwrap();
        let floor = plan.floor.get();
        prop_assert_eq!(plan.mark.numbers().collect::<Vec<_>>(), (1..floor).collect::<Vec<_>>());
        let latest_at = versions.iter().rfind(|(_, own, _)| *own <= time).map(|(number, ..)| *number);
        if let Some(latest) = latest_at && time >= begin {
            prop_assert!(latest >= floor, "version {} was the latest at {}, and the floor is {}", latest, time, floor);
        }
        // No version remains that is known to be old enough.
        let old = versions.iter().rfind(|(_, time, known)| *known && *time < begin);
        prop_assert_eq!(floor, old.map_or(1, |(number, ..)| *number));
        let unknown = versions.iter().filter(|(number, _, known)| *number >= floor && !known).count();
        prop_assert_eq!(plan.undated, unknown as u64);
    }
}
