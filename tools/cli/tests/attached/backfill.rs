//! `vzero --attached FILE admin backfill`, and the records of changes before, during and after it.

use serde_json::json;
use testkit::{
    attached::{Orders, state},
    command::members,
    hostile::incompressible,
};

use crate::orders;

const COUNTS: [&str; 5] = ["Items", "Written", "AlreadyThere", "Skipped", "Refused"];

#[test]
fn items_without_history_get_a_baseline() {
    let orders = orders();
    for no in 1..=60 {
        orders.put(no, &json!({"state": {"S": "a"}, "rev": {"N": "4"}}));
    }
    let records = orders.records();
    orders.deliver(&records[..10]);
    assert_eq!(orders.run("backfill").code, 2);
    let dry = orders.json("backfill --dry-run", 0);
    assert_eq!(members(&dry, &COUNTS), json!([60, 50, 10, 0, 0]));
    assert!(orders.stored(60).is_empty());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("backfill.json");
    let state_file = path.to_str().unwrap();
    let first = orders.json(&format!("backfill --yes --segments 2 --state {state_file}"), 0);
    assert_eq!(members(&first, &COUNTS), json!([60, 50, 10, 0, 0]));
    let second = orders.json("backfill --yes", 0);
    assert_eq!(members(&second, &COUNTS), json!([60, 0, 60, 0, 0]));
    orders.check(&format!(
        r#"
        history {} => {{"Version": 1, "Baseline": true, "RecordedBy": "backfill", "Stream": "backfill", "ItemVersion": 4, "Attributes": {{"customer": "c", "no": 60, "rev": 4, "state": "a"}}}}
        audit --all --lag 0 => {{"Entities": 60, "Versions": 60, "Findings": {{}}}}
        backfill --yes --from-table T => 2
        backfill --yes --id {{no}} => 2
        backfill --yes --rename a=b => 2
        "#,
        Orders::key(60)
    ));
    let changes = orders.run(&["history", &Orders::key(60), "--changes"]).stdout;
    let expected = "Z  [Baseline]  +customer: c, +no: 60, +rev: 4, +state: a\n";
    assert!(changes.ends_with(expected), "{changes}");
}

#[test]
fn changes_that_the_baseline_contains_make_no_version() {
    let orders = orders();
    for no in [1, 2] {
        for text in ["a", "b", "c"] {
            orders.put(no, &state(text));
        }
    }
    // Deleted and created again before the backfill.
    orders.delete(2);
    orders.put(2, &state("d"));
    // Back in an earlier state, which is also the old image of a change.
    for text in ["a", "b", "a"] {
        orders.put(3, &state(text));
    }
    let before = orders.records();
    orders.json("backfill --yes", 0);
    // The records arrive after the backfill, and once more.
    for _ in 0..2 {
        orders.deliver(&before);
        assert_eq!(orders.versions(1), ["v1 c Baseline"]);
        assert_eq!(orders.versions(2), ["v1 d Baseline"]);
        assert_eq!(orders.versions(3), ["v1 a Baseline", "v2 b", "v3 a"]);
    }
    // The first change after it, and then all records again.
    for no in [1, 2, 3] {
        orders.put(no, &state("e"));
    }
    let after = orders.records();
    for _ in 0..2 {
        orders.deliver(&after);
        assert_eq!(orders.versions(1), ["v1 c Baseline", "v2 e"]);
        assert_eq!(orders.versions(2), ["v1 d Baseline", "v2 e"]);
        assert_eq!(orders.versions(3), ["v1 a Baseline", "v2 b", "v3 a", "v4 e"]);
    }
    orders.deliver(&before);
    assert_eq!(orders.versions(1), ["v1 c Baseline", "v2 e"]);
    let audit = orders.json("audit --all --lag 0", 0);
    assert_eq!(audit["Findings"], json!({}));
}

#[test]
fn a_record_that_comes_first_is_not_overwritten() {
    let orders = orders();
    orders.put(1, &state("a"));
    orders.put(1, &state("b"));
    let records = orders.records();
    orders.deliver(&records[1..]);
    let run = orders.json("backfill --yes", 0);
    assert_eq!(members(&run, &COUNTS), json!([1, 0, 1, 0, 0]));
    assert_eq!(orders.versions(1), ["v1 a Baseline", "v2 b"]);
    orders.delete(1);
    orders.deliver(&orders.records()[2..]);
    assert_eq!(orders.versions(1).last().unwrap(), "v3 - Deleted");
}

#[test]
fn items_that_the_filter_excludes_get_none() {
    let filter = json!({"Filter": {"state": ["open"], "no": [1, 2]}});
    let orders = Orders::with(env!("CARGO_BIN_EXE_vzero"), &filter);
    for (no, text) in [(1, "open"), (2, "shut"), (3, "open")] {
        orders.put(no, &state(text));
    }
    let run = orders.json("backfill --yes", 0);
    assert_eq!(members(&run, &COUNTS), json!([3, 1, 0, 2, 0]));
    assert_eq!(orders.versions(1), ["v1 open Baseline"]);
    assert!(orders.stored(2).is_empty() && orders.stored(3).is_empty());
}

#[test]
fn an_item_that_does_not_fit_into_a_version_is_refused() {
    let orders = orders();
    orders.put(1, &json!({"long": {"B": incompressible(409_600 - 60)}}));
    orders.put(2, &state("a"));
    let lines = orders.lines("backfill --yes", 4);
    assert_eq!(lines[0]["Key"], json!({"customer": "c", "no": 1}));
    assert_eq!(members(&lines[1], &COUNTS), json!([2, 1, 0, 0, 1]));
}
