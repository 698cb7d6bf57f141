use serde_json::{Value, json};

use super::*;
use shared::domain::entity::EntityId;

fn table() -> AttachedTable {
    let definition = json!({
        "TableName": "Orders", "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
        "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}],
        "IgnoreAttributes": ["seen"], "Filter": {"status": ["open"]},
    });
    AttachedTable::parse(&definition.to_string()).unwrap()
}

/// A version of the record with this number. `mark` can be empty.
fn version(number: u64, record: &str, mark: &str) -> Value {
    let mut item = json!({
        "SK": {"S": format!("v{number:010}")}, "Stream": {"S": "2026"}, "RequestId": {"S": record},
        // An attribute of the user with a name of the library.
        "item:Late": {"BOOL": true}, "state": {"N": number.to_string()},
    });
    if !mark.is_empty() {
        item[mark] = json!({"BOOL": true});
    }
    item
}

fn history(items: impl IntoIterator<Item = Value>) -> History {
    let mut history = History::default();
    for item in items {
        history.add(serde_json::from_value(item).unwrap());
    }
    history
}

fn findings(items: impl IntoIterator<Item = Value>) -> Vec<Value> {
    let entity = EntityId::new("E").unwrap();
    let findings = history(items).findings();
    let json = |finding: &Finding| {
        let mut json = finding.to_json(&entity);
        json.as_object_mut().unwrap().remove("ID");
        json["Wrong"] = finding.is_wrong().into();
        json
    };
    findings.iter().map(json).collect()
}

#[test]
fn each_deviation_is_found() {
    let floor = |floor: u64| json!({"SK": {"S": "floor"}, "Floor": {"N": floor.to_string()}});
    let found = |name: &str, members: Value, wrong: bool| {
        let mut found = members;
        (found["Finding"], found["Wrong"]) = (name.into(), wrong.into());
        vec![found]
    };
    let dense = [
        version(1, "5#old", "Baseline"),
        version(2, "5", ""),
        version(3, "10", ""),
    ];
    assert!(findings(dense.clone()).is_empty());
    // An empty history is none.
    assert!(!history([]).is_entity() && findings([]).is_empty());
    for (items, expected) in [
        (
            vec![version(1, "5", ""), version(4, "6", "")],
            found("Gap", json!({"From": 2, "To": 3}), true),
        ),
        (
            vec![floor(3), version(4, "6", "")],
            found("Gap", json!({"From": 3, "To": 3}), true),
        ),
        (
            vec![floor(3), version(2, "5", "Pinned"), version(3, "6", "")],
            Vec::new(),
        ),
        (
            vec![floor(3), version(2, "5", ""), version(3, "6", "")],
            found("Unpruned", json!({"From": 2, "To": 2}), true),
        ),
        (vec![floor(3)], found("BelowFloor", json!({"Floor": 3}), true)),
        (
            vec![version(1, "6", ""), version(2, "5", ""), version(3, "7", "")],
            found("Unordered", json!({"Version": 2}), true),
        ),
        // Numbers are compared by value, and the same record makes one version.
        (vec![version(1, "9", ""), version(2, "10#old", "")], Vec::new()),
        (
            vec![version(1, "9", ""), version(2, "9", "")],
            found("Unordered", json!({"Version": 2}), true),
        ),
        (
            vec![version(1, "6", ""), version(2, "5", "Late"), version(3, "7", "")],
            found("Late", json!({"Versions": 1}), false),
        ),
        (
            vec![version(1, "6", ""), version(2, "7#old", "Missed"), version(3, "7", "")],
            found("Missed", json!({"Versions": 1}), false),
        ),
        (
            vec![json!({"SK": {"S": "quarantine#7"}}), version(1, "6", "")],
            found("Quarantined", json!({"Records": 1}), true),
        ),
    ] {
        assert_eq!(findings(items.clone()), expected, "{items:?}");
    }
}

#[test]
fn the_newest_state_that_is_not_late_is_compared_with_the_item() {
    let (table, selection) = (table(), Selection::new(&table()));
    let state = |status: &str, seen: u64| json!({"status": {"S": status}, "seen": {"N": seen.to_string()}});
    let with = |version: Value, state: &Value| {
        let mut version = version;
        version
            .as_object_mut()
            .unwrap()
            .extend(state.as_object().unwrap().clone());
        for name in ["item:Late", "state"] {
            version.as_object_mut().unwrap().remove(name);
        }
        version
    };
    let (open, shut, touched) = (state("open", 1), state("shut", 1), state("open", 2));
    let tombstone = with(version(1, "5", "Deleted"), &json!({}));
    for (newest, item, expected) in [
        (with(version(1, "5", ""), &open), Some(&open), false),
        (with(version(1, "5", ""), &open), Some(&touched), false),
        (with(version(1, "5", ""), &open), Some(&shut), true),
        (with(version(1, "5", ""), &open), None, true),
        (tombstone.clone(), None, false),
        (tombstone.clone(), Some(&open), true),
        // These changes are not delivered.
        (tombstone, Some(&shut), false),
        (with(version(1, "5", ""), &shut), None, false),
    ] {
        let late = with(version(2, "4", "Late"), &shut);
        let history = history([newest.clone(), late]);
        let item = item.map(|item| serde_json::from_value::<Item>(item.clone()).unwrap());
        let found = history.newest().unwrap();
        assert_eq!(found.version, Version::FIRST);
        assert_eq!(
            found.differs(&table, &selection, item.as_ref()),
            expected,
            "{newest} {item:?}"
        );
    }
}

#[test]
fn attributes_of_the_user_are_compared_under_their_own_names() {
    let mut flat = version(1, "5", "");
    flat["id"] = json!({"S": "a"});
    let history = history([flat]);
    let newest = history.newest().unwrap();
    let image = serde_json::to_value(&newest.image).unwrap();
    assert_eq!(
        image,
        json!({"id": {"S": "a"}, "Late": {"BOOL": true}, "state": {"N": "1"}})
    );
    let key = newest.key(&table()).unwrap();
    assert_eq!(serde_json::to_value(key).unwrap(), json!({"id": {"S": "a"}}));
}
