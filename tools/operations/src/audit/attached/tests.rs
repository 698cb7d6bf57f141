use serde_json::{Value, json};

use super::*;

fn table() -> AttachedTable {
    let definition = json!({
        "TableName": "Orders", "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
        "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}],
        "IgnoreAttributes": ["seen"], "Filter": {"status": ["open"]},
    });
    attach::parse(&definition.to_string()).unwrap()
}

/// Returns the newest state of a history with these versions, each with other members than its keys and its record.
fn newest(versions: &[(&str, Value)]) -> Newest {
    let mut history = Collection::new(digits(), true);
    for (number, (record, members)) in (1..).zip(versions) {
        let mut item = members.clone();
        item["SK"] = json!({"S": format!("v{number:010}")});
        (item["Stream"], item["RequestId"]) = (json!({"S": "2026"}), json!({"S": record}));
        history.add(serde_json::from_value(item).unwrap());
    }
    Newest::of_history(&history).unwrap()
}

#[test]
fn the_newest_state_that_is_not_late_is_compared_with_the_item() {
    let (table, selection) = (table(), Selection::new(&table()));
    let open = json!({"status": {"S": "open"}, "seen": {"N": "1"}});
    let shut = json!({"status": {"S": "shut"}, "seen": {"N": "1"}});
    let touched = json!({"status": {"S": "open"}, "seen": {"N": "2"}});
    let tombstone = json!({"Deleted": {"BOOL": true}});
    let late = json!({"status": {"S": "shut"}, "Late": {"BOOL": true}});
    for (state, item, expected) in [
        (&open, Some(&open), false),
        (&open, Some(&touched), false),
        (&open, Some(&shut), true),
        (&open, None, true),
        (&tombstone, None, false),
        (&tombstone, Some(&open), true),
        // These changes are not delivered.
        (&tombstone, Some(&shut), false),
        (&shut, None, false),
    ] {
        let newest = newest(&[("5", state.clone()), ("4", late.clone())]);
        assert_eq!(newest.version, Version::FIRST);
        let read = item.map(|item| serde_json::from_value::<Item>(item.clone()).unwrap());
        let differs = newest.differs(&table, &selection, read.as_ref());
        assert_eq!(differs, expected, "{state} {item:?}");
    }
}

#[test]
fn attributes_of_the_user_are_compared_under_their_own_names() {
    // The first one has a name of the library.
    let newest = newest(&[(
        "5",
        json!({"item:Late": {"BOOL": true}, "state": {"N": "1"}, "id": {"S": "a"}}),
    )]);
    let image = serde_json::to_value(&newest.image).unwrap();
    assert_eq!(
        image,
        json!({"id": {"S": "a"}, "Late": {"BOOL": true}, "state": {"N": "1"}})
    );
    let key = newest.key(&table()).unwrap();
    assert_eq!(serde_json::to_value(key).unwrap(), json!({"id": {"S": "a"}}));
}
