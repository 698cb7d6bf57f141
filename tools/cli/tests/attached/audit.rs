//! `vzero --attached FILE audit`.

use serde_json::{Value, json};
use testkit::{
    attached::{Orders, state},
    command::members,
    database,
};

use crate::orders;

const COUNTS: [&str; 3] = ["Entities", "Versions", "Findings"];

#[test]
fn consistent_histories_have_no_findings() {
    let orders = orders();
    for no in 1..=3 {
        orders.put(no, &state("a"));
        orders.put(no, &state("b"));
    }
    orders.delete(2);
    // Only an ignored attribute changes.
    orders.put(1, &json!({"state": {"S": "b"}, "seen": {"N": "7"}}));
    orders.deliver_all();
    // An item that never changed since the table was attached.
    orders.put(4, &state("a"));
    orders.check(&format!(
        r#"
        audit --all --lag 0 => {{"Entities": 3, "Versions": 7, "Findings": {{}}}}
        audit {} --lag 0 => {{"Entities": 1, "Versions": 3, "Findings": {{}}}}
        audit {} --lag 0 => {{"Entities": 1, "Versions": 0, "Findings": {{}}}}
        audit {} --lag 0 => ~ Entities => 3
        "#,
        Orders::key(2),
        Orders::key(4),
        Orders::key(5)
    ));
}

#[test]
fn an_item_that_differs_from_its_history_is_found() {
    let orders = orders();
    for no in 1..=4 {
        orders.put(no, &state("a"));
    }
    orders.deliver_all();
    let differs = |no: u64| json!({"ID": orders.entity(no).as_str(), "Finding": "Differs", "Version": 1});
    orders.put(1, &state("b"));
    orders.delete(2);
    // Created again as it was: no change is missing in the state.
    orders.delete(3);
    orders.put(3, &state("a"));
    for lag in ["0", "1"] {
        let mut found = orders.lines(&format!("audit --all --lag {lag}"), 4);
        let summary = found.pop().unwrap();
        assert_eq!(members(&summary, &COUNTS), json!([4, 4, {"Differs": 2}]));
        found.sort_by_key(Value::to_string);
        assert_eq!(found, [differs(1), differs(2)]);
        let one = orders.lines(&["audit", &Orders::key(1), &Orders::key(4), "--lag", lag], 4);
        assert_eq!(one[0], differs(1));
    }
    orders.deliver_all();
    let all = orders.json("audit --all --lag 0", 0);
    assert_eq!(members(&all, &COUNTS), json!([4, 8, {}]));
}

#[test]
fn late_and_missed_versions_are_information() {
    let orders = orders();
    for text in ["a", "b", "c"] {
        orders.put(1, &state(text));
    }
    let records = orders.records();
    orders.deliver(&[records[0].clone(), records[2].clone()]);
    orders.deliver(&records[1..2]);
    assert_eq!(orders.versions(1), ["v1 a", "v2 b Missed", "v3 c", "v4 b Late"]);
    let found = orders.lines("audit --all --lag 0", 0);
    let id = orders.entity(1);
    assert_eq!(
        found[..2],
        [
            json!({"ID": id.as_str(), "Finding": "Late", "Versions": 1}),
            json!({"ID": id.as_str(), "Finding": "Missed", "Versions": 1}),
        ]
    );
    assert_eq!(members(&found[2], &COUNTS), json!([1, 4, {"Late": 1, "Missed": 1}]));
}

#[test]
fn gaps_wrong_order_and_quarantine_are_errors() {
    let orders = orders();
    for text in ["a", "b", "c", "d"] {
        orders.put(1, &state(text));
        orders.put(2, &state(text));
    }
    orders.deliver_all();
    let ids = [1, 2].map(|no| orders.entity(no).as_str().to_owned());
    for key in ["v0000000002", "v0000000003"] {
        let delete = database::delete_item(&orders.client, &orders.history, &ids[0], key);
        orders.runtime.block_on(delete);
    }
    let mut swapped = orders.stored(2)[0].clone();
    swapped["SK"] = json!({"S": "v0000000005"});
    let quarantined = json!({"PK": {"S": ids[1]}, "SK": {"S": "quarantine#7"}, "Record": {"S": "{}"}});
    for item in [swapped, quarantined] {
        let put = database::put_into(&orders.client, &orders.history, item);
        orders.runtime.block_on(put);
    }
    let gap = orders.lines(&["audit", &Orders::key(1), "--lag", "0"], 4);
    assert_eq!(gap[0], json!({"ID": ids[0], "Finding": "Gap", "From": 2, "To": 3}));
    let found = orders.lines(&["audit", &Orders::key(2), "--lag", "0"], 4);
    assert_eq!(found[0], json!({"ID": ids[1], "Finding": "Unordered", "Version": 5}));
    let all = orders.lines("audit --all --lag 0", 4);
    let findings = &all.last().unwrap()["Findings"];
    assert_eq!(
        (&findings["Gap"], &findings["Unordered"]),
        (&json!(1), &json!(1)),
        "{all:?}"
    );
}

#[test]
fn items_that_the_filter_excludes_are_not_compared() {
    let filter = json!({"Filter": {"state": ["open"]}});
    let orders = Orders::with(env!("CARGO_BIN_EXE_vzero"), &filter);
    for text in ["open", "shut", "gone"] {
        orders.put(1, &state(text));
        orders.put(2, &state(text));
    }
    orders.delete(2);
    orders.deliver_all();
    assert_eq!(orders.versions(1), ["v1 open", "v2 shut"]);
    let all = orders.json("audit --all --lag 0", 0);
    assert_eq!(members(&all, &COUNTS), json!([2, 4, {}]));
    // This change is one that history should have.
    orders.put(1, &state("open"));
    let found = orders.lines("audit --all --lag 0", 4);
    assert_eq!(found[0]["Finding"], "Differs");
}

#[test]
fn the_table_is_audited_in_segments_with_a_state() {
    let orders = orders();
    for no in 1..=250 {
        orders.put(no, &state("a"));
    }
    orders.deliver_all();
    orders.put(7, &state("b"));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.json");
    let state = path.to_str().unwrap();
    let audit = format!("audit --all --lag 1 --segments 3 --state {state}");
    let found = orders.lines(&audit, 4);
    assert_eq!(members(&found[1], &COUNTS), json!([250, 250, {"Differs": 1}]));
    assert!(!path.exists());
}
