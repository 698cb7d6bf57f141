//! `vzero --attached FILE restore`.

use serde_json::{Map, Value, json};
use testkit::attached::{Orders, state};

use crate::orders;

fn with_rev(text: &str, rev: u64, more: &Value) -> Value {
    let mut item = state(text);
    item["rev"] = json!({"N": rev.to_string()});
    item.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    item
}

#[test]
fn an_old_state_is_put_back_with_a_greater_version_attribute() {
    let orders = orders();
    orders.put(1, &with_rev("a", 1, &json!({"note": {"S": "x"}, "seen": {"N": "1"}})));
    orders.put(
        1,
        &with_rev("b", 2, &json!({"extra": {"SS": ["y"]}, "seen": {"N": "5"}})),
    );
    orders.deliver_all();
    let key = Orders::key(1);
    let refused = orders.run(&format!("restore {key} 1"));
    assert!(refused.stderr.contains("--overwrite-item"), "{refused:?}");
    let before = orders.item(1);
    orders.check(&format!(
        r#"
        restore {key} 1 => 2
        restore {key} 1 --overwrite-item --reason wrong => 2
        restore {key} 1 --dry-run => {{"DryRun": true, "Outcome": "Restored", "Set": {{"note": "x", "state": "a"}}, "Removed": ["extra"], "CountedUp": {{"rev": 2}}}}
        "#
    ));
    assert_eq!(orders.item(1), before);
    let restored = orders.json(&format!("restore {key} 1 --overwrite-item"), 0);
    assert_eq!(restored, json!({"ID": key, "Version": 1, "Outcome": "Restored"}));
    let expected = with_rev("a", 3, &json!({"note": {"S": "x"}, "seen": {"N": "5"}}));
    assert_eq!(orders.item(1), expected);
    // The change comes back through the stream.
    orders.deliver_all();
    assert_eq!(orders.versions(1), ["v1 a", "v2 b", "v3 a"]);
    orders.check(&format!(
        r#"
        restore {key} 1 --overwrite-item => {{"Outcome": "Unchanged"}}
        restore {key} 9 --overwrite-item => 3
        "#
    ));
}

#[test]
fn tombstones_are_restored_in_both_directions() {
    let orders = orders();
    let key = Orders::key(1);
    orders.put(1, &with_rev("a", 1, &json!({"seen": {"N": "1"}})));
    orders.put(1, &with_rev("b", 7, &json!({})));
    orders.delete(1);
    orders.deliver_all();
    let restored = orders.json(&format!("restore {key} 1 --overwrite-item"), 0);
    assert_eq!(restored["Outcome"], "Restored");
    // One above that of the last state, so that no client with an older one can write.
    assert_eq!(orders.item(1), with_rev("a", 8, &json!({"seen": {"N": "1"}})));
    orders.deliver_all();
    let deleted = orders.run(&format!("restore {key} 3"));
    assert_eq!(deleted.code, 2);
    assert_ne!(orders.item(1), Value::Null);
    let deleted = orders.json(&format!("restore {key} 3 --overwrite-item"), 0);
    assert_eq!(deleted["Outcome"], "Deleted");
    assert_eq!(orders.item(1), Value::Null);
    orders.deliver_all();
    assert_eq!(
        orders.versions(1),
        ["v1 a", "v2 b", "v3 - Deleted", "v4 a", "v5 - Deleted"]
    );
}

#[test]
fn an_item_that_history_does_not_have_is_not_overwritten() {
    let orders = orders();
    let key = Orders::key(1);
    orders.put(1, &state("a"));
    orders.put(1, &state("b"));
    orders.deliver_all();
    orders.put(1, &state("c"));
    let conflict = orders.run(&format!("restore {key} 1 --overwrite-item"));
    assert_eq!(conflict.code, 4, "{conflict:?}");
    assert_eq!(orders.item(1), state("c"));
    orders.delete(1);
    assert_eq!(orders.run(&format!("restore {key} 1 --overwrite-item")).code, 4);
    assert_eq!(orders.item(1), Value::Null);
}

#[test]
fn an_item_with_too_many_attributes_is_refused() {
    let orders = orders();
    let many = |text: &str, count: usize| {
        let members = (0..count).map(|index| (format!("a{index}"), json!({"S": text})));
        Value::Object(members.collect::<Map<_, _>>())
    };
    for (no, count) in [(1, 149), (2, 150)] {
        orders.put(no, &many("x", count));
        orders.put(no, &many("y", count));
    }
    orders.deliver_all();
    let restored = orders.json(&["restore", &Orders::key(1), "1", "--overwrite-item"], 0);
    assert_eq!(restored["Outcome"], "Restored");
    assert_eq!(orders.item(1), many("x", 149));
    let refused = orders.run(&["restore", &Orders::key(2), "1", "--overwrite-item"]);
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(refused.stderr.contains("too many attributes"), "{refused:?}");
}
