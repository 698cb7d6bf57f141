//! Discrepancies: cases, and a comparison with a model that looks at each version separately.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

fn item(json: Value) -> Item {
    serde_json::from_value(json).unwrap()
}

fn latest(number: &str, state: &str) -> Value {
    json!({"PK": {"S": "E"}, "SK": {"S": "v0"}, "Latest": {"N": number}, "State": {"S": state}})
}

fn version(number: u64, state: &str) -> Value {
    json!({"PK": {"S": "E"}, "SK": {"S": format!("v{number}")}, "State": {"S": state}})
}

fn marked(mut version: Value, name: &str, value: Value) -> Value {
    version[name] = value;
    version
}

fn floor(number: u64) -> Value {
    json!({"PK": {"S": "E"}, "SK": {"S": "floor"}, "Floor": {"N": number.to_string()}})
}

fn collection(items: &[Value]) -> Collection {
    let mut collection = Collection::default();
    for json in items {
        collection.add(item(json.clone()), VersionDigits::default());
    }
    collection
}

fn findings(items: &[Value]) -> Vec<Value> {
    let entity = EntityId::new("E").unwrap();
    let found = collection(items).check(VersionDigits::default(), Duration::ZERO);
    let findings = found.findings();
    assert_eq!(found.is_clean(), findings.is_empty());
    let mut shown: Vec<_> = findings.iter().map(|finding| finding.to_json(&entity)).collect();
    for finding in &mut shown {
        finding.as_object_mut().unwrap().remove("ID");
    }
    shown
}

#[test]
fn what_is_wrong_is_named() {
    let run = |name: &str, from: u64, to: u64| json!({"Finding": name, "From": from, "To": to});
    let ttl = json!({"N": "1"});
    let pin = json!({"BOOL": true});
    let other = |key: &str| json!({"PK": {"S": "E"}, "SK": {"S": key}});
    for (items, expected) in [
        (vec![], vec![]),
        (
            vec![
                other("Metadata"),
                other("2020-01-01T00:00:00"),
                other("request#1"),
                other("v01"),
            ],
            vec![],
        ),
        (
            vec![latest("1", "a"), version(1, "a"), other("Metadata"), other("request#1")],
            vec![],
        ),
        (vec![latest("2", "b"), version(1, "a"), version(2, "b")], vec![]),
        (vec![latest("1", "a")], vec![run("Gap", 1, 1)]),
        (
            vec![latest("6", "f"), version(1, "a"), version(4, "d"), version(6, "f")],
            vec![run("Gap", 2, 3), run("Gap", 5, 5)],
        ),
        (
            vec![latest("1", "a"), version(1, "a"), version(2, "b"), version(10, "c")],
            vec![run("Stray", 2, 2), run("Stray", 10, 10)],
        ),
        (
            vec![latest("1", "a"), version(1, "b")],
            vec![json!({"Finding": "LatestDiffers", "Version": 1})],
        ),
        // At 1970-01-01T00:00:00Z.
        (
            vec![
                marked(latest("1", "a"), "RecordedAt", json!({"S": "1970-01-01T00:15:00Z"})),
                version(1, "a"),
            ],
            vec![],
        ),
        (
            vec![
                marked(
                    latest("1", "a"),
                    "RecordedAt",
                    json!({"S": "1970-01-01T00:15:00.000001Z"}),
                ),
                version(1, "a"),
            ],
            vec![json!({"Finding": "Ahead", "Version": 1})],
        ),
        (vec![version(1, "a"), version(2, "b")], vec![run("Orphan", 1, 2)]),
        (
            vec![other("v0"), version(1, "a")],
            vec![
                json!({"Finding": "NoVersion", "Why": "Latest is missing"}),
                run("Orphan", 1, 1),
            ],
        ),
        (
            vec![latest("0", "a")],
            vec![json!({"Finding": "NoVersion", "Why": "Latest is below 1"})],
        ),
        // Pruned: gone, or still there with its mark, or pinned.
        (vec![floor(3), latest("3", "c"), version(3, "c")], vec![]),
        (
            vec![
                floor(3),
                latest("3", "c"),
                marked(version(1, "a"), "TTL", ttl.clone()),
                version(3, "c"),
            ],
            vec![],
        ),
        (
            vec![
                floor(3),
                latest("3", "c"),
                marked(version(2, "a"), "Pinned", pin.clone()),
                version(3, "c"),
            ],
            vec![],
        ),
        (
            vec![floor(3), latest("3", "c"), version(1, "a"), version(3, "c")],
            vec![run("Unpruned", 1, 1)],
        ),
        (
            vec![floor(3), latest("4", "d"), version(4, "d")],
            vec![run("Gap", 3, 3)],
        ),
        // The marks of the newest version are no difference.
        (
            vec![
                latest("1", "a"),
                marked(marked(version(1, "a"), "Pinned", pin), "TTL", ttl),
            ],
            vec![],
        ),
    ] {
        assert_eq!(findings(&items), expected, "{items:?}");
    }
}

#[test]
fn lagging_alone_is_not_wrong() {
    let lagging = Finding::Lagging {
        through: 2,
        latest: Version::FIRST,
    };
    let gap = Finding::Gap {
        from: Version::FIRST,
        to: Version::FIRST,
    };
    assert!(!lagging.is_wrong() && gap.is_wrong());
    let shown = lagging.to_json(&EntityId::new("E").unwrap());
    assert_eq!(
        shown,
        json!({"ID": "E", "Finding": "Lagging", "Through": 2, "Latest": 1})
    );
}

#[test]
fn a_version_that_came_before_its_latest_item_is_still_to_be_compared() {
    assert!(collection(&[version(1, "b"), version(2, "b"), latest("1", "a")]).is_uncompared());
    assert!(!collection(&[version(1, "b"), latest("1", "a")]).is_uncompared());
    assert!(!collection(&[latest("1", "a"), version(1, "b")]).is_uncompared());
    assert!(!collection(&[latest("2", "a"), version(1, "b")]).is_uncompared());
}

#[derive(Debug, Clone)]
struct Made {
    number: u64,
    state: &'static str,
    marked: bool,
    pinned: bool,
}

fn made() -> impl Strategy<Value = Made> {
    (
        1..12u64,
        prop::sample::select(vec!["a", "b"]),
        any::<bool>(),
        any::<bool>(),
    )
        .prop_map(|(number, state, marked, pinned)| Made {
            number,
            state,
            marked,
            pinned,
        })
}

proptest! {
    #[test]
    fn the_judgement_is_that_of_a_model(
        number in prop::option::of(0..12u64),
        begins in prop::option::of(1..8u64),
        versions in prop::collection::vec(made(), 0..12),
    ) {
        let mut seen = BTreeSet::new();
        let versions: Vec<_> = versions.into_iter().filter(|made| seen.insert(made.number)).collect();
        let mut items: Vec<_> = begins.into_iter().map(floor).collect();
        items.extend(number.map(|number| latest(&number.to_string(), "a")));
        items.extend(versions.iter().map(|made| {
            let mut item = version(made.number, made.state);
            if made.marked {
                item = marked(item, "TTL", json!({"N": "1"}));
            }
            if made.pinned {
                item = marked(item, "Pinned", json!({"BOOL": true}));
            }
            item
        }));
        let found = collection(&items).check(VersionDigits::default(), Duration::ZERO);

        let highest = versions.iter().map(|made| made.number).chain(number).max().unwrap_or_default();
        let below_floor = begins.filter(|floor| highest < *floor);
        prop_assert_eq!(found.uncounted_floor.map(Version::get), below_floor);
        let begins = begins.unwrap_or(1);
        let there = |number: u64| versions.iter().find(|made| made.number == number);
        let every = |wrong: &dyn Fn(u64) -> bool| (1..20u64).filter(|number| wrong(*number)).collect::<VersionSet>();
        let valid = number.filter(|number| *number > 0);
        let unless_valid = |set: VersionSet| if valid.is_some() { set } else { VersionSet::default() };
        prop_assert_eq!(found.no_version.is_some(), number == Some(0));
        prop_assert_eq!(&found.missing, &unless_valid(every(&|n| {
            n >= begins && valid.is_some_and(|number| n <= number) && there(n).is_none()
        })));
        prop_assert_eq!(&found.strays, &unless_valid(every(&|n| {
            valid.is_some_and(|number| n > number) && there(n).is_some()
        })));
        prop_assert_eq!(&found.unpruned, &unless_valid(every(&|n| {
            n < begins && valid.is_some_and(|number| number >= begins) && there(n).is_some_and(|made| !made.marked && !made.pinned)
        })));
        prop_assert_eq!(&found.orphans, &every(&|n| {
            number.is_none() && below_floor.is_none() && there(n).is_some()
        }));
        let differs = valid.filter(|number| there(*number).is_some_and(|made| made.state != "a"));
        prop_assert_eq!(found.latest_differs.map(Version::get), differs);
    }
}
