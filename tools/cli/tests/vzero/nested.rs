//! Updates of members of maps, in each write mode and with each way to detect duplicates.

use serde_json::{Value, json};
use testkit::table::Table;

use crate::new_table;

const MODES: [&str; 6] = [
    "--mode stream",
    "--mode inline",
    "--mode transaction",
    "--mode stream --idempotency ledger",
    "--mode inline --idempotency ledger",
    "--mode transaction --idempotency ledger",
];

/// Exit code of a put, and its output, or else its error.
fn put(table: &Table, mode: &str, arguments: &str) -> (i32, String) {
    let run = table.run(&format!("put E {mode} {arguments}"));
    (run.code, run.stdout + &run.stderr)
}

fn attributes(table: &Table) -> Value {
    table.json("get E", 0)["Attributes"].clone()
}

#[test]
fn members_change_and_others_stay() {
    for mode in MODES {
        let table = new_table();
        let change = |arguments: &str| {
            let (code, said) = put(&table, mode, arguments);
            assert_eq!(code, 0, "{mode:?} {arguments:?}: {said}");
            serde_json::from_str::<Value>(&said).unwrap()
        };
        change(r#"--set-json 'A={"City": "Bonn", "a.b": 1, "In": {"X": 1, "Y": [2]}}' --set State=OK"#);
        let update = r#"A={"$update": {"City": "Köln", "a.b": null, "New": {"Z": 1}, "In": {"$update": {"X": null}}}}"#;
        let nested = format!("--set-json '{update}' --request-id r2 --actor alice");
        assert_eq!(change(&nested)["Outcome"], "Written");
        let after = json!({"A": {"City": "Köln", "New": {"Z": 1}, "In": {"Y": [2]}}, "State": "OK"});
        assert_eq!(attributes(&table), after, "{mode:?}");
        assert_eq!(change(&nested)["Outcome"], "Duplicate", "{mode:?}");
        // The same request with another content.
        let other = r#"--set-json 'A={"$update": {"City": "Ulm"}}' --request-id r2"#;
        let (code, said) = put(&table, mode, other);
        assert!(
            code == 4 && said.contains("the request id was used for another update"),
            "{mode:?}: {said}"
        );
        let same = r#"--set-json 'A={"$update": {"City": "Köln"}}' --skip-unchanged"#;
        assert_eq!(change(same)["Outcome"], "Unchanged", "{mode:?}");
        // A duplicate is one although the map is gone.
        change("--unset A");
        assert_eq!(change(&nested)["Outcome"], "Duplicate", "{mode:?}");
        assert_eq!(table.items_of("E")["v0"]["Latest"], json!({"N": "3"}), "{mode:?}");
        if !mode.starts_with("--mode stream") {
            let versions = table.lines("history E --oldest-first", 0);
            assert_eq!(versions[1]["Attributes"], after, "{mode:?}");
            let line = table.run("history E --changes --from 2 --to 2").stdout;
            let expected = "  alice  A.City: Bonn → Köln, -A.In.X, +A.New: {\"Z\":1}, -A.\"a.b\"\n";
            assert!(line.ends_with(expected), "{line}");
        }
    }
}

#[test]
fn a_missing_map_is_an_error_that_names_it() {
    for mode in MODES {
        let table = new_table();
        let refused = |update: &str, path: &str| {
            let before = table.items_of("E");
            let (code, said) = put(&table, mode, &format!("--set-json '{update}'"));
            let expected = format!(
                "error: the latest item has no map {path}, whose members the update changes: set the whole map first\n"
            );
            assert_eq!((code, said), (2, expected), "{mode:?} {update}");
            assert_eq!(table.items_of("E"), before, "{mode:?} {update}");
        };
        refused(r#"A={"$update": {"B": 1}}"#, "A");
        put(&table, mode, r#"--set-json 'A={"L": [], "M": {}}' --set Text=x"#);
        refused(r#"B={"$update": {"B": 1}}"#, "B");
        refused(r#"Text={"$update": {"B": 1}}"#, "Text");
        refused(
            r#"A={"$update": {"L": {"$update": {"B": 1}}, "M": {"$update": {"B": 1}}}}"#,
            "A.L",
        );
        refused(
            r#"A={"$update": {"M": {"$update": {"N": {"$update": {"B": 1}}}}}}"#,
            "A.M.N",
        );
    }
}

#[test]
fn other_rules_hold() {
    let table = new_table();
    // An older update, one that expects another version, and a tombstone, which has no map.
    table.check(
        r#"
        put E --mode inline --set-json 'A={"City": "Bonn"}' --time 2026-01-02 => {"Version": 1}
        put E --ordering time --set-json 'A={"$update": {"City": "Ulm"}}' --time 2026-01-01 => 4 error: the update is older than the latest version, 1
        put E --mode inline --expect 7 --set-json 'A={"$update": {"City": "Ulm"}}' => 4
        put E --mode inline --expect 1 --set-json 'A={"$update": {"City": "Ulm"}}' => {"Version": 2}
        delete E --mode inline => {"Version": 3}
        put E --mode inline --set-json 'A={"$update": {"City": "Bern"}}' => 2
        restore E 1 --mode inline => {"Version": 4}
        "#,
    );
    assert_eq!(attributes(&table), json!({"A": {"City": "Bonn"}}));
    table.check(
        r#"
        put E --set-json 'Latest={"$update": {"A": 1}}' => 2 error: the update: Latest is reserved
        put E --set-json 'Actor={"$update": {"A": 1}}' => 2 error: the update: Actor describes one version, so an update replaces it
        put E --set-json 'A={"$update": {}}' => 2 error: the update: the update of A names no members
        put E --set-json 'A={"B": {"$update": {"C": 1}}}' => 2 error: $update in A is neither in place of an attribute nor of a member of another $update
        metadata E --set-json 'A={"$update": {"B": 1}}' => 2 error: A: $update is only for `vzero put`
        "#,
    );
    // A map with such a member is data in its escaped form.
    table.check(r#"put E --mode inline --set-json 'D={"$map": {"$update": {"x": 1}}}' => {"Version": 5}"#);
    assert_eq!(attributes(&table)["D"], json!({"$map": {"$update": {"x": 1}}}));
}
