//! `vzero --attached FILE admin prune` and `pin`.

use serde_json::{Value, json};
use testkit::{
    attached::{Orders, state},
    command::members,
};

use crate::orders;

#[test]
fn old_versions_are_pruned_and_pinned_ones_are_kept() {
    let orders = orders();
    let key = Orders::key(1);
    for text in ["a", "b", "c", "d"] {
        orders.put(1, &state(text));
    }
    orders.deliver_all();
    let pinned = orders.json(&format!("pin {key} 2"), 0);
    assert_eq!(pinned["Pinned"], true);
    assert_eq!(orders.run(&format!("pin {key} 9")).code, 3);
    let dry = orders.json(&format!("prune {key} --keep 1 --dry-run"), 0);
    assert_eq!(members(&dry, &["Floor", "Marked", "Left"]), json!([4, 2, 1]));
    let pruned = orders.json(&format!("prune {key} --keep 1 --grace 1d"), 0);
    assert_eq!(members(&pruned, &["Floor", "Marked", "Left"]), json!([4, 2, 1]));
    assert_eq!(orders.versions(1), ["v1 a TTL", "v2 b Pinned", "v3 c TTL", "v4 d"]);
    assert_eq!(orders.item(1), state("d"));
    let audit = orders.json(&format!("audit {key} --lag 0"), 0);
    assert_eq!(audit["Findings"], json!({}));
    // The next change continues the numbers.
    orders.put(1, &state("e"));
    orders.deliver_all();
    assert_eq!(orders.versions(1).last().unwrap(), "v5 e");
    let unpinned = orders.json(&format!("pin {key} 2 --unpin"), 0);
    assert_eq!(unpinned["Pinned"], false);
    let audit = orders.lines(&format!("audit {key} --lag 0"), 4);
    assert_eq!(audit[0]["Finding"], "Unpruned");
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
    let one = orders.json(&["prune", &Orders::key(1), "--keep", "1"], 0);
    assert_eq!(members(&one, &["Floor", "Marked"]), json!([3, 2]));
    let table = orders.json("prune --all --older-than 0s", 0);
    assert_eq!(
        members(&table, &["Entities", "Pruned", "Marked", "Left", "Failed"]),
        json!([2, 1, 2, 2, 0])
    );
    for no in [1, 2] {
        let stored = orders.stored(no);
        let is_late = |item: &Value| item["SK"]["S"].as_str().unwrap().starts_with("late#");
        let others = stored.iter().filter(|item| !is_late(item));
        let marked: Vec<_> = others.map(|item| item.get("TTL").is_some()).collect();
        assert_eq!(marked, [false, true, true, false, false, false], "floor, then versions");
    }
    // The item is still compared with its newest state.
    let audit = orders.lines("audit --all --lag 0", 0);
    assert_eq!(audit.last().unwrap()["Findings"], json!({"Late": 2, "Missed": 2}));
}
