//! `vzero admin repair` while the stream is behind, and after a purge.

use std::{
    io::{BufRead as _, BufReader},
    time::Duration,
};

use operations::{
    progress::Silent,
    repair::{Repair, of_entities},
};
use serde_json::{Value, json};
use testkit::{command::Run, script, table::Table};

/// Actions on a latest item whose version 7 was acknowledged, but whose stream record is not processed yet.
const CHANGES: [(&str, &str, &str, u64); 3] = [
    ("@delete E v0", "Revive", r#""Version": 7"#, 7),
    (
        r#"@set E v0 {"Latest": {"N": "2"}, "A": {"N": "70"}}"#,
        "Raise",
        r#""From": 2, "To": 8"#,
        8,
    ),
    (r#"@put E v0 {"A": {"N": "70"}}"#, "Adopt", r#""Version": 8"#, 8),
];

/// Returns a table with such an entity, and the version item of version 7.
fn behind(change: &str) -> (Table, Value) {
    let table = crate::new_table();
    script::run(&table, r#"@writes 7 {"ID": "E"}"#);
    let late = table.items()["E v7"].clone();
    script::run(&table, &format!("@delete E v7\n{change}"));
    (table, late)
}

#[test]
fn a_version_that_is_still_in_the_stream_is_not_created_a_second_time() {
    for (change, step, members, latest) in CHANGES {
        let (table, late) = behind(change);
        let mut child = table.start("repair E --revive --yes --lag 2");
        let mut note = String::new();
        BufReader::new(child.stderr.take().unwrap())
            .read_line(&mut note)
            .unwrap();
        assert_eq!(note, "note: waiting 2 s for versions that may still be in the stream\n");
        table.put(late.clone());
        let ran = Run::wait(child);
        let step: Value = serde_json::from_str(&format!(r#"{{"ID": "E", "Step": "{step}", {members}}}"#)).unwrap();
        assert_eq!((ran.code, &ran.lines[0]), (0, &step), "{ran:?}");
        let items = table.items();
        assert_eq!(
            (&items["E v7"], &items["E v0"]["Latest"]["N"]),
            (&late, &json!(latest.to_string()))
        );
        table.lines("audit --all --lag 0", 0);
        // The next update gets a new number.
        assert_eq!(table.write(json!({"ID": "E", "A": "next"})), latest + 1);
    }
}

fn plan(table: &Table) -> Repair {
    let ids = ["E".to_owned()];
    let plan = table.runtime.block_on(async {
        let (found, _) = of_entities(&table.store, &ids, Duration::ZERO, &Silent).await.unwrap();
        Repair::of(&table.store, &found, true).await.unwrap()
    });
    assert_eq!(plan.steps.len(), 1, "{plan:?}");
    plan
}

fn execute(table: &Table, mut plan: Repair) -> Value {
    table.runtime.block_on(plan.execute(&table.store, &Silent));
    plan.tally.summary(false)
}

#[test]
fn a_plan_from_before_a_purge_brings_nothing_back() {
    // The steps revive the latest item, and put version 7.
    for (change, outcome) in [("@delete E v0", "Conflict"), ("", "Purged")] {
        let (table, _) = behind(change);
        let plan = plan(&table);
        table.json("purge E --yes --wait 0s", 0);
        let done = execute(&table, plan);
        assert_eq!(done[outcome], 1, "{done}");
        assert!(table.items().is_empty(), "{:?}", table.items());
    }
}
