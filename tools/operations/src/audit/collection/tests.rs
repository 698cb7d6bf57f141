//! Discrepancies: cases, and a comparison with a model that looks at each version separately.

use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::json;
use shared::domain::{attached, entity::EntityId};

use super::*;

/// Returns the item of a word: the latest item `latest=6f` of version 6 in the state f, its version `6f`, version `6@9` of an attached
/// table by its record 9, `floor=3`, or any other sort key. It can have marks, as in `6f+TTL+Pinned`.
fn item(word: &str) -> Item {
    let mut marks = word.split('+');
    let word = marks.next().unwrap();
    let split = |text: &str| {
        let end = text.find(|letter: char| !letter.is_ascii_digit());
        let (number, rest) = text.split_at(end.unwrap_or(text.len()));
        (number.to_owned(), rest.to_owned())
    };
    let (number, rest) = split(word);
    let mut item = if let Some(floor) = word.strip_prefix("floor=") {
        json!({"SK": {"S": "floor"}, "Floor": {"N": floor}})
    } else if let Some((number, state)) = word.strip_prefix("latest=").map(split) {
        json!({"SK": {"S": "v0"}, "Latest": {"N": number}, "State": {"S": state}})
    } else if let Some(record) = rest.strip_prefix('@') {
        // One attribute of the user has a name of the library.
        json!({
            "SK": {"S": format!("v{number:0>10}")}, "Stream": {"S": "2026"}, "RequestId": {"S": record},
            "item:Late": {"BOOL": true}, "state": {"N": number},
        })
    } else if !number.is_empty() && rest.len() == 1 {
        json!({"SK": {"S": format!("v{number}")}, "State": {"S": rest}})
    } else {
        json!({"SK": {"S": word}})
    };
    item["PK"] = json!({"S": "E"});
    for mark in marks {
        item[mark] = if mark == "TTL" {
            json!({"N": "1"})
        } else {
            json!({"BOOL": true})
        };
    }
    serde_json::from_value(item).unwrap()
}

fn collection(items: &str, is_attached: bool) -> Collection {
    let digits = if is_attached {
        attached::digits()
    } else {
        VersionDigits::default()
    };
    let mut collection = Collection::new(digits, is_attached);
    items.split_whitespace().for_each(|word| collection.add(item(word)));
    collection
}

/// Returns the findings by their names, with their values.
fn findings(seen: &Collection) -> String {
    // At 1970-01-01T00:00:00Z.
    let findings = seen.check(Duration::ZERO);
    let entity = EntityId::new("E").unwrap();
    let shown = |finding: &Finding| {
        let json = finding.to_json(&entity);
        let members = json.as_object().unwrap().values().skip(1);
        let members: Vec<_> = members.map(|value| value.to_string().replace('"', "")).collect();
        members.join(" ")
    };
    let shown: Vec<_> = findings.iter().map(shown).collect();
    shown.join(", ")
}

#[test]
fn what_is_wrong_is_named() {
    for (items, expected) in [
        ("", ""),
        ("Metadata 2020-01-01T00:00:00 request#1", ""),
        ("v01", "OtherWidth 1"),
        ("latest=1a 1a Metadata request#1", ""),
        ("latest=2b 1a 2b", ""),
        ("latest=1a", "Gap 1 1"),
        ("latest=6f 1a 4d 6f", "Gap 2 3, Gap 5 5"),
        ("latest=1a 1a 2b 10c", "Stray 2 2, Stray 10 10"),
        ("latest=1a 1b", "LatestDiffers 1"),
        ("1b latest=1a", "LatestDiffers 1"),
        // Version 1 is compared when the entity is read again.
        ("1b 2b latest=1a", "Stray 2 2"),
        ("1a 2b", "Orphan 1 2"),
        ("v0 1a", "NoVersion Latest is missing, Orphan 1 1"),
        ("latest=0a", "NoVersion Latest is below 1"),
        // Pruned: gone, or still there with its mark, or pinned.
        ("floor=3 latest=3c 3c", ""),
        ("floor=3 latest=3c 1a+TTL 3c", ""),
        ("floor=3 latest=3c 2a+Pinned 3c", ""),
        ("floor=3 latest=3c 1a 3c", "Unpruned 1 1"),
        ("floor=3 latest=4d 4d", "Gap 3 3"),
        // The marks of the newest version are no difference.
        ("latest=1a 1a+TTL+Pinned", ""),
    ] {
        assert_eq!(findings(&collection(items, false)), expected, "{items}");
    }
    for (time, expected) in [("1970-01-01T00:15:00Z", ""), ("1970-01-01T00:15:00.000001Z", "Ahead 1")] {
        let mut latest = item("latest=1a");
        latest.insert("RecordedAt".to_owned(), AttributeValue::S(time.to_owned()));
        let mut seen = collection("1a", false);
        seen.add(latest);
        assert_eq!(findings(&seen), expected, "{time}");
    }
}

#[test]
fn each_deviation_of_an_attached_table_is_found() {
    for (items, expected) in [
        // An empty history is none.
        ("", ""),
        ("1@5#old+Baseline 2@5 3@10", ""),
        ("1@5 4@6", "Gap 2 3"),
        ("floor=3 4@6", "Gap 3 3"),
        ("floor=3 2@5+Pinned 3@6", ""),
        ("floor=3 2@5 3@6", "Unpruned 2 2"),
        ("floor=3", "BelowFloor 3"),
        ("1@6 2@5 3@7", "Unordered 2"),
        // Numbers are compared by value, and the same record makes one version.
        ("1@9 2@10#old", ""),
        ("1@9 2@9", "Unordered 2"),
        ("1@6 2@5+Late 3@7", "Late 1"),
        ("1@6 2@7#old+Missed 3@7", "Missed 1"),
        ("quarantine#7 1@6", "Quarantined 1"),
    ] {
        let seen = collection(items, true);
        assert_eq!(findings(&seen), expected, "{items}");
        assert_eq!(seen.is_entity(), !items.is_empty());
    }
}

#[test]
fn what_lags_or_came_late_is_no_error() {
    let (through, latest, versions) = (2, Version::FIRST, 1);
    let lagging = Finding::Lagging { through, latest };
    for finding in [
        lagging,
        Finding::Late { versions },
        Finding::Missed { versions },
        Finding::Omitted { versions },
    ] {
        assert!(!finding.is_wrong(), "{finding:?}");
    }
    let shown = lagging.to_json(&EntityId::new("E").unwrap());
    let expected = json!({"ID": "E", "Finding": "Lagging", "Through": 2, "Latest": 1});
    assert_eq!(shown.to_string(), expected.to_string());
}

/// A version, with its number and state, and whether it is marked and pinned.
type Made = (u64, &'static str, bool, bool);

fn made() -> impl Strategy<Value = Made> {
    let state = prop::sample::select(vec!["a", "b"]);
    (1..12u64, state, any::<bool>(), any::<bool>())
}

proptest! {
    #[test]
    fn the_judgement_is_that_of_a_model(
        number in prop::option::of(0..12u64),
        begins in prop::option::of(1..8u64),
        versions in prop::collection::vec(made(), 0..12),
    ) {
        let mut seen = BTreeSet::new();
        let versions: Vec<_> = versions.into_iter().filter(|made| seen.insert(made.0)).collect();
        let mut items: Vec<_> = begins.iter().map(|floor| format!("floor={floor}")).collect();
        items.extend(number.map(|number| format!("latest={number}a")));
        items.extend(versions.iter().map(|(number, state, is_marked, is_pinned)| {
            let marks = [(is_marked, "+TTL"), (is_pinned, "+Pinned")].map(|(is, mark)| if *is { mark } else { "" });
            format!("{number}{state}{}", marks.concat())
        }));
        let found = collection(&items.join(" "), false).check(Duration::ZERO);
        let of = |name: &str| {
            let ranges = found.iter().filter(|finding| finding.name() == name).filter_map(Finding::range);
            VersionSet::from(ranges.collect::<Vec<_>>())
        };

        let highest = versions.iter().map(|made| made.0).chain(number).max().unwrap_or_default();
        let below_floor = begins.filter(|floor| highest < *floor);
        let floors = found.iter().filter_map(|finding| match finding {
            Finding::BelowFloor { floor } => Some(floor.get()),
            _ => None,
        });
        prop_assert_eq!(floors.collect::<Vec<_>>(), Vec::from_iter(below_floor));
        let begins = begins.unwrap_or(1);
        let there = |number: u64| versions.iter().find(|made| made.0 == number);
        let every = |wrong: &dyn Fn(u64) -> bool| (1..20u64).filter(|number| wrong(*number)).collect::<VersionSet>();
        let valid = number.filter(|number| *number > 0);
        let unless_valid = |set: VersionSet| if valid.is_some() { set } else { VersionSet::default() };
        let is_invalid = found.iter().any(|finding| matches!(finding, Finding::NoVersion { .. }));
        prop_assert_eq!(is_invalid, number == Some(0));
        prop_assert_eq!(of("Gap"), unless_valid(every(&|n| {
            n >= begins && valid.is_some_and(|number| n <= number) && there(n).is_none()
        })));
        prop_assert_eq!(of("Stray"), unless_valid(every(&|n| {
            valid.is_some_and(|number| n > number) && there(n).is_some()
        })));
        prop_assert_eq!(of("Unpruned"), unless_valid(every(&|n| {
            n < begins && valid.is_some_and(|number| number >= begins) && there(n).is_some_and(|made| !made.2 && !made.3)
        })));
        prop_assert_eq!(of("Orphan"), every(&|n| {
            number.is_none() && below_floor.is_none() && there(n).is_some()
        }));
        let differs = valid.filter(|number| there(*number).is_some_and(|made| made.1 != "a"));
        let found = found.iter().filter_map(|finding| match finding {
            Finding::LatestDiffers { version } => Some(version.get()),
            _ => None,
        });
        prop_assert_eq!(found.collect::<Vec<_>>(), Vec::from_iter(differs));
    }
}
