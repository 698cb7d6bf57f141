use serde_json::{Value, json};

use super::*;
use crate::domain::{
    attached::{
        change::Place,
        decision::has_state,
        definition::KeyType,
        item::{Recorded, StateOrigin, stored_flat},
    },
    compression::Compression,
    erased::Erasure,
    recorded_at::RecordedAt,
    test_values::{item, orders, version, version_item},
    version_item::is_same_version,
};

fn erasure(second: u64) -> Erasure {
    Erasure {
        at: RecordedAt::since_epoch(std::time::Duration::from_secs(second)),
        to: version(9),
        reason: "asked".to_owned(),
    }
}

fn paths(texts: &Value) -> Vec<ErasedPath> {
    let texts = texts.as_array().unwrap().iter();
    texts
        .map(|path| ErasedPath::parse(&path.to_string()).unwrap())
        .collect()
}

/// Erases paths, and returns the members with their values, and the item without its mark.
fn erased(mut item: Item, texts: &Value, attached: Option<&AttachedTable>) -> (Value, Item) {
    let members = erase_paths(&mut item, &paths(texts), attached, |_, _| erasure(7).value()).unwrap();
    let marked: Vec<_> = Erased::of(&item).0.into_keys().collect();
    let (mut found, values): (Vec<_>, Vec<_>) = members.into_iter().unzip();
    let found_json = found
        .iter()
        .zip(values)
        .map(|(path, value)| (path.to_string(), json!(value)));
    let found_json = found_json.collect();
    found.sort();
    assert_eq!(marked, found, "{texts}");
    Erased::default().put_on(&mut item);
    (Value::Object(found_json), item)
}

#[test]
fn members_at_and_below_the_paths_are_erased() {
    const CASES: &str = r#"
        [["Attribute", "Place", "Street"]]     -> {"[\"Attribute\",\"Place\",\"Street\"]": {"S": "x"}}
        [["Attribute", "Place", "Hall"]]       -> {"[\"Attribute\",\"Place\",\"Hall\",\"Row\"]": {"N": "1"}}
        [["Attribute", "Place"], ["Attribute", "Place", "Street"]] -> {"[\"Attribute\",\"Place\",\"Street\"]": {"S": "x"}, "[\"Attribute\",\"Place\",\"Hall\",\"Row\"]": {"N": "1"}, "[\"Attribute\",\"Place\",\"None\"]": {"M": {}}}
        [["Attribute", "Lines"]]               -> {"[\"Attribute\",\"Lines\"]": {"L": [{"M": {"a": {"N": "1"}}}]}}
        [["Attribute", "Time"]]                -> {"[\"Attribute\",\"Time\"]": {"S": "t"}}
        [["Metadata", "Actor"], ["Metadata", "Sender"], ["Metadata", "RequestId"]] -> {"[\"Metadata\",\"Actor\"]": {"S": "amy"}, "[\"Metadata\",\"Sender\"]": {"S": "s"}, "[\"Metadata\",\"RequestId\"]": {"S": "r"}}
        [["Attribute", "Actor"], ["Attribute", "PK"], ["Attribute", "Other"], ["Attribute", "Place", "Street", "x"], ["Attribute", "Place", "None", "x"], ["Metadata", "Reason"]] -> {}
    "#;
    let stored = json!({
        "PK": {"S": "E"}, "SK": {"S": "v1"}, "Actor": {"S": "amy"}, "Sender": {"S": "s"}, "RequestId": {"S": "r"}, "RequestPayload": {"S": "p"},
        "Place": {"M": {"Street": {"S": "x"}, "Hall": {"M": {"Row": {"N": "1"}}}, "None": {"M": {}}}},
        "Lines": {"L": [{"M": {"a": {"N": "1"}}}]}, "Time": {"S": "t"},
    });
    for (texts, expected) in testkit::cases::cases(CASES) {
        let (found, rest) = erased(item(stored.clone()), &texts, None);
        let expected: Value = serde_json::from_str(expected).unwrap();
        assert_eq!(found, expected, "{texts}");
        // Everything else is there, except for the hash of the update.
        let rest = serde_json::to_value(&rest).unwrap();
        let mut whole = stored.clone();
        if expected != json!({}) {
            whole.as_object_mut().unwrap().remove("RequestPayload");
        }
        for path in paths(&json!(
            expected
                .as_object()
                .unwrap()
                .keys()
                .map(|key| serde_json::from_str::<Value>(key).unwrap())
                .collect::<Vec<_>>()
        )) {
            remove(&mut whole, path.names());
        }
        assert_eq!(rest, whole, "{texts}");
    }
    let mut version = item(stored.clone());
    for (texts, expected) in [
        (
            json!([["Attribute", "Lines", "0", "a"]]),
            r#"["Attribute","Lines","0","a"] is inside of a list, which is erased as a whole: erase ["Attribute","Lines"]"#,
        ),
        (
            json!([["Attribute", "Place"], ["Attribute", "Lines", "a"]]),
            r#"["Attribute","Lines","a"] is inside of a list, which is erased as a whole: erase ["Attribute","Lines"]"#,
        ),
    ] {
        let rejected = erase_paths(&mut version, &paths(&texts), None, |_, _| erasure(7).value());
        assert_eq!(rejected.unwrap_err().to_string(), expected);
        assert!(version == item(stored.clone()));
    }
}

/// Removes a member of an item in `DynamoDB` JSON, with maps that become empty.
fn remove(item: &mut Value, names: &[String]) {
    let members = item.as_object_mut().unwrap();
    match names {
        [name] => _ = members.remove(name),
        [name, rest @ ..] => {
            remove(&mut members[name]["M"], rest);
            if members[name]["M"] == json!({}) {
                members.remove(name);
            }
        }
        [] => {}
    }
}

#[test]
fn an_earlier_erasure_keeps_its_commitment() {
    let mut version = item(json!({"PK": {"S": "E"}, "SK": {"S": "v1"}, "A": {"S": "x"}, "B": {"S": "y"}}));
    let commitment = Some([1; 32]);
    let first = ErasedValue {
        commitment,
        ..erasure(7).value()
    };
    for texts in [
        json!([["Attribute", "A"]]),
        json!([["Attribute", "A"], ["Attribute", "B"]]),
    ] {
        erase_paths(&mut version, &paths(&texts), None, |_, _| first.clone()).unwrap();
    }
    assert_eq!(Erased::of(&version).0.values().collect::<Vec<_>>(), [&first, &first]);
    version.insert("A".to_owned(), AttributeValue::Null(true));
    erase_paths(&mut version, &paths(&json!([["Attribute", "A"]])), None, |_, _| {
        erasure(8).value()
    })
    .unwrap();
    assert_eq!(Erased::of(&version).0.values().collect::<Vec<_>>(), [&first, &first]);
    assert!(!version.contains_key("A"));
}

#[test]
fn copies_in_an_attached_table_are_erased_too() {
    let table = orders(&[("id", KeyType::S)]);
    let of = |more: Value| {
        let mut flat = json!({
            "PK": {"S": "E"}, "SK": {"S": "v0000000001"}, "RequestId": {"S": "7"}, "Stream": {"S": "s"}, "RecordedBy": {"S": "stream"},
            "id": {"S": "a"}, "rev": {"N": "4"}, "ItemVersion": {"N": "4"}, "by": {"S": "amy"}, "Actor": {"S": "amy"},
            "ActorUnchanged": {"BOOL": true}, "why": {"M": {"a": {"S": "w"}}}, "Reason": {"M": {"a": {"S": "w"}}}, "item:Reason": {"S": "own"},
        });
        flat.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        flat
    };
    let (none, deleted) = (json!({}), json!({"Deleted": {"BOOL": true}}));
    for (more, texts, gone) in [
        (
            &none,
            json!([["Attribute", "by"]]),
            &["by", "Actor", "ActorUnchanged"][..],
        ),
        (
            &none,
            json!([["Metadata", "Actor"]]),
            &["by", "Actor", "ActorUnchanged"],
        ),
        (&none, json!([["Attribute", "why", "a"]]), &["why", "Reason"]),
        (&none, json!([["Metadata", "Reason"]]), &["why", "Reason"]),
        (&none, json!([["Attribute", "Reason"]]), &["item:Reason"]),
        (&none, json!([["Attribute", "rev"]]), &["rev", "ItemVersion"]),
        // The history has the name of the key, and the place of the record is no secret.
        (&none, json!([["Attribute", "id"], ["Metadata", "RequestId"]]), &[]),
        // The author of a deletion is a service.
        (&deleted, json!([["Attribute", "by"]]), &["by"]),
    ] {
        let (_, rest) = erased(item(of(more.clone())), &texts, Some(&table));
        let mut expected = of(more.clone());
        expected
            .as_object_mut()
            .unwrap()
            .retain(|name, _| !gone.contains(&name.as_str()));
        assert_eq!(serde_json::to_value(&rest).unwrap(), expected, "{texts}");
        let stored = stored_flat(rest.clone(), Compression::None).unwrap();
        assert!(crate::domain::attached::item::flat(stored) == rest, "{texts}");
    }
}

fn erasures(texts: &Value) -> Erasures {
    Erasures(
        (7..)
            .zip(paths(texts))
            .map(|(second, path)| (path, erasure(second)))
            .collect(),
    )
}

#[test]
fn a_version_after_an_erasure_is_marked_without_commitments() {
    let image = json!({
        "PK": {"S": "E"}, "SK": {"S": "v0"}, "Latest": {"N": "3"}, "A": {"S": "x"}, "B": {"M": {"c": {"S": "y"}, "d": {"L": []}}},
        "RequestPayload": {"S": "p"}, "Erased": {"S": "of another program"},
    });
    let stored = erased_version(version_item(image.clone()), &Erasures::default());
    assert!(stored.item() == version_item(image.clone()).item() && !stored.item().contains_key("Erased"));
    let texts = json!([
        ["Attribute", "A"],
        ["Attribute", "B", "c"],
        ["Attribute", "B", "d", "0"]
    ]);
    let stored = erased_version(version_item(image.clone()), &erasures(&texts));
    let mark = |at: u64| json!({"M": {"At": erasure(at).at.value(), "Reason": {"S": "asked"}}});
    let expected = json!({
        "PK": {"S": "E"}, "SK": {"S": "v3"}, "B": {"M": {"d": {"L": []}}},
        "Erased": {"M": {r#"["Attribute","A"]"#: mark(7), r#"["Attribute","B","c"]"#: mark(8)}},
    });
    assert_eq!(serde_json::to_value(stored.item()).unwrap(), expected);
    // It is the same version as before.
    let whole = version_item(image);
    assert!(whole.is_same_as(stored.item()) && stored.is_same_as(whole.item()));
}

#[test]
fn an_erased_path_equals_any_value() {
    let erased = |texts: Value, of: Value| {
        let mut item = item(of);
        let places = paths(&texts).into_iter().map(|path| (path, erasure(7).value()));
        Erased(places.collect()).put_on(&mut item);
        item
    };
    let (street, place) = (json!([["Attribute", "P", "s"]]), json!([["Attribute", "P"]]));
    for (texts, one, other, expected) in [
        (
            &street,
            json!({"P": {"M": {"c": {"N": "1"}}}}),
            json!({"P": {"M": {"s": {"S": "x"}, "c": {"N": "1"}}}}),
            true,
        ),
        (
            &street,
            json!({"P": {"M": {"c": {"N": "1"}}}}),
            json!({"P": {"M": {"c": {"N": "1.0"}}}}),
            true,
        ),
        (
            &street,
            json!({"P": {"M": {"c": {"N": "1"}}}}),
            json!({"P": {"M": {"s": {"S": "x"}, "c": {"N": "2"}}}}),
            false,
        ),
        // The map has been empty without the value.
        (&street, json!({}), json!({"P": {"M": {"s": {"S": "x"}}}}), true),
        (&street, json!({}), json!({"P": {"M": {}}}), true),
        (&street, json!({}), json!({"P": {"S": "x"}}), false),
        (&place, json!({}), json!({"P": {"M": {"s": {"S": "x"}}}}), true),
        (&place, json!({}), json!({"Q": {"S": "x"}}), false),
        (
            &json!([["Metadata", "Actor"]]),
            json!({}),
            json!({"Actor": {"S": "amy"}, "RequestPayload": {"S": "p"}}),
            true,
        ),
        (
            &json!([["Metadata", "Actor"]]),
            json!({}),
            json!({"Reason": {"S": "amy"}}),
            false,
        ),
        // Without an erasure, the hash of the update counts.
        (&json!([]), json!({}), json!({"RequestPayload": {"S": "p"}}), false),
    ] {
        let (one, plain) = (erased(texts.clone(), one.clone()), item(other.clone()));
        let both = erased(json!([["Attribute", "Z"]]), other.clone());
        for other in [plain, both].into_iter().filter(|_| *texts != json!([])) {
            assert_eq!(is_same_version(&one, &other), expected, "{texts} {other:?}");
            assert_eq!(is_same_version(&other, &one), expected, "{texts} {other:?}");
        }
        if *texts == json!([]) {
            assert!(!is_same_version(&one, &item(other)));
        }
    }
}

#[test]
fn a_state_after_an_erasure_has_neither_the_value_nor_its_copy() {
    let table = orders(&[("id", KeyType::S)]);
    let image = json!({"id": {"S": "a"}, "by": {"S": "amy"}, "why": {"S": "w"}, "x": {"M": {"y": {"N": "1"}}}});
    let mut state = State {
        place: Place::parse("2026-11-22T06:24:48.123", "42").unwrap(),
        recorded_at: None,
        image: item(image.clone()),
        is_deleted: false,
        changed_by: crate::domain::attached::item::author_of_item(&table, &item(image.clone()), Some(&item(image))),
        origin: StateOrigin::Late,
        around: None,
        omission: None,
        erased: Erased::default(),
    };
    erase_state(
        &mut state,
        &erasures(&json!([["Attribute", "by"], ["Attribute", "x", "y"]])),
        &table,
    );
    assert_eq!(state.image, item(json!({"id": {"S": "a"}, "why": {"S": "w"}})));
    assert_eq!(state.changed_by, [("Reason", crate::domain::attributes::s("w"))]);
    let marked: Vec<_> = state.erased.paths().map(ToString::to_string).collect();
    let expected = [
        r#"["Attribute","by"]"#,
        r#"["Attribute","x","y"]"#,
        r#"["Metadata","Actor"]"#,
        r#"["Metadata","ActorUnchanged"]"#,
    ];
    assert_eq!(marked, expected);
}

#[test]
fn all_copies_of_a_value_are_erased_with_it() {
    const CASES: &str = r#"
        [["Attribute", "by"]]     -> ["Attribute","by"] ["Metadata","Actor"] ["Metadata","ActorUnchanged"]
        [["Metadata", "Actor"]]   -> ["Attribute","by"] ["Metadata","Actor"] ["Metadata","ActorUnchanged"]
        [["Attribute", "rev"]]    -> ["Attribute","rev"] ["Metadata","ItemVersion"]
        [["Attribute", "why", "a"]] -> ["Attribute","why","a"] ["Metadata","Reason"]
        [["Attribute", "x"]]      -> ["Attribute","x"]
    "#;
    for (texts, expected) in testkit::cases::cases(CASES) {
        let paths = paths(&texts).into_iter().collect();
        let all = with_all_copies(&orders(&[("id", KeyType::S)]), &paths);
        let all: Vec<_> = all.iter().map(ToString::to_string).collect();
        assert_eq!(all.join(" "), expected, "{texts}");
    }
}

#[test]
fn an_attribute_with_the_name_of_erased_metadata_counts() {
    let mut flat =
        item(json!({"PK": {"S": "E"}, "SK": {"S": "v0000000001"}, "id": {"S": "a"}, "item:Reason": {"S": "own"}}));
    let reason = ErasedPath::metadata(names::REASON).unwrap();
    Erased([(reason, erasure(7).value())].into()).put_on(&mut flat);
    let version = Recorded::of_flat(flat).unwrap();
    for (reason, expected) in [("own", true), ("other", false)] {
        let item = item(json!({"id": {"S": "a"}, "Reason": {"S": reason}}));
        assert_eq!(has_state(&version, &item, &BTreeSet::new()), expected);
    }
}
