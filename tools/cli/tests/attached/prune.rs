//! `vzero --attached FILE admin prune` and `pin`.

use serde_json::Value;
use testkit::attached::{Orders, state};

use crate::orders;

#[test]
fn old_versions_are_pruned_and_pinned_ones_are_kept() {
    let orders = orders();
    let key = Orders::key(1);
    for text in ["a", "b", "c", "d"] {
        orders.put(1, &state(text));
    }
    orders.deliver_all();
    orders.check(&format!(
        r#"
        pin {key} 2 => {{"Pinned": true}}
        pin {key} 9 => 3
        prune {key} --keep 1 --dry-run => {{"Floor": 4, "Marked": 2, "Left": 1}}
        prune {key} --keep 1 --grace 1d => {{"Floor": 4, "Marked": 2, "Left": 1}}
        audit {key} --lag 0 => Findings [{{}}]
        "#
    ));
    assert_eq!(orders.versions(1), ["v1 a TTL", "v2 b Pinned", "v3 c TTL", "v4 d"]);
    assert_eq!(orders.item(1), state("d"));
    // The next change continues the numbers.
    orders.put(1, &state("e"));
    orders.deliver_all();
    assert_eq!(orders.versions(1).last().unwrap(), "v5 e");
    orders.check(&format!(
        r#"
        pin {key} 2 --unpin => {{"Pinned": false}} => 0 …
        audit {key} --lag 0 => Finding ["Unpruned", null] => 4
        "#
    ));
}

#[test]
fn the_newest_version_that_is_not_late_is_never_pruned() {
    let orders = orders();
    for no in [1, 2] {
        for text in ["a", "b", "c", "d"] {
            orders.put(no, &state(text));
        }
    }
    for of_item in orders.records().chunks(4) {
        orders.deliver(&[of_item[0].clone(), of_item[3].clone()]);
        orders.deliver(&of_item[1..3]);
    }
    let all = ["v1 a", "v2 c Missed", "v3 d", "v4 b Late", "v5 c Late"];
    assert_eq!(orders.versions(1), all);
    orders.check(&format!(
        r#"
        prune {} --keep 1 => {{"Floor": 3, "Marked": 2}}
        prune --all --older-than 0s => {{"Entities": 2, "Pruned": 1, "Marked": 2, "Left": 2, "Failed": 0}}
        "#,
        Orders::key(1)
    ));
    for no in [1, 2] {
        let stored = orders.stored(no);
        let is_late = |item: &Value| item["SK"]["S"].as_str().unwrap().starts_with("late#");
        let others = stored.iter().filter(|item| !is_late(item));
        let marked: Vec<_> = others.map(|item| item.get("TTL").is_some()).collect();
        assert_eq!(marked, [false, true, true, false, false, false], "floor, then versions");
    }
    // The item is still compared with its newest state.
    orders.check(r#"audit --all --lag 0 => {"Findings": {"Late": 2, "Missed": 2}}"#);
}
