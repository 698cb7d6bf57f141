//! `vzero admin repair` while the stream is behind, and after a purge.

use std::{
    io::{BufRead as _, BufReader},
    time::Duration,
};

use operations::{
    progress::Silent,
    repair::{self, Plan, of_entities},
};
use serde_json::{Value, json};
use testkit::{command::Run, table::Table};

use crate::{new_table, with_digits};

/// Returns a table in which v7 of an entity was acknowledged, but its stream record is not processed yet. `change` changes the
/// latest item, and the second value is the version item of v7.
fn behind(change: impl FnOnce(&Table, Value)) -> (Table, Value) {
    let table = new_table();
    for n in 1..=7 {
        table.write(json!({"ID": "E", "N": n}));
    }
    let (latest, late) = (table.items()["E v0"].clone(), table.items()["E v7"].clone());
    table.delete("E", "v7");
    change(&table, latest);
    (table, late)
}

#[test]
fn a_version_that_is_still_in_the_stream_is_not_created_a_second_time() {
    let set_back = |table: &Table, mut latest: Value| {
        latest["Latest"] = json!({"N": "2"});
        latest["N"] = json!({"N": "70"});
        table.put(latest);
    };
    let deleted = |table: &Table, _| table.delete("E", "v0");
    let replaced = |table: &Table, _| table.put(json!({"PK": {"S": "E"}, "SK": {"S": "v0"}, "N": {"N": "70"}}));
    let step = |step: &str, members: Value| {
        let mut line = json!({"ID": "E", "Step": step});
        line.as_object_mut()
            .unwrap()
            .extend(members.as_object().unwrap().clone());
        line
    };
    for ((table, late), step, latest) in [
        (behind(deleted), step("Revive", json!({"Version": 7})), "7"),
        (behind(set_back), step("Raise", json!({"From": 2, "To": 8})), "8"),
        (behind(replaced), step("Adopt", json!({"Version": 8})), "8"),
    ] {
        let mut child = table.start("repair E --revive --yes --lag 2");
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut note = String::new();
        stderr.read_line(&mut note).unwrap();
        assert_eq!(note, "note: waiting 2 s for versions that may still be in the stream\n");
        table.put(late.clone());
        let ran = Run::wait(child);
        assert_eq!((ran.code, &ran.lines[0]), (0, &step), "{ran:?}");
        let items = table.items();
        assert_eq!((&items["E v7"], &items["E v0"]["Latest"]["N"]), (&late, &json!(latest)));
        table.lines("audit --all --lag 0", 0);
        // The next update gets a new number.
        let next = latest.parse::<u64>().unwrap() + 1;
        assert_eq!(table.write(json!({"ID": "E", "N": "next"})), next);
    }
}

#[test]
fn a_step_is_not_executed_after_a_higher_version_arrived() {
    let deleted = |table: &Table, _| table.delete("E", "v0");
    let set_back = |table: &Table, mut latest: Value| {
        latest["Latest"] = json!({"N": "2"});
        table.put(latest);
    };
    let same = |table: &Table, mut latest: Value| {
        latest["Latest"] = json!({"N": "6"});
        table.put(latest);
    };
    let replaced = |table: &Table, _| table.put(json!({"PK": {"S": "E"}, "SK": {"S": "v0"}, "N": {"N": "70"}}));
    for (table, late) in [behind(deleted), behind(set_back), behind(same), behind(replaced)] {
        check_conflict(&table, &late);
    }
    // A latest item at a padded key.
    let table = with_digits(2);
    let item = |key: &str, state: &str| json!({"PK": {"S": "E"}, "SK": {"S": key}, "State": {"S": state}});
    for (key, state) in [("v01", "NORMAL"), ("v02", "WARNING1"), ("v00", "OTHER")] {
        table.put(item(key, state));
    }
    check_conflict(&table, &item("v03", "LATE"));
}

/// Plans a repair, puts the version, and executes the plan.
fn check_conflict(table: &Table, late: &Value) {
    let plan = plan(table);
    table.put(late.clone());
    let before = table.items();
    assert_eq!(execute(table, plan)["Conflict"], 1);
    assert_eq!(table.items(), before);
}

fn plan(table: &Table) -> Plan {
    let ids = ["E".to_owned()];
    let plan = table.runtime.block_on(async {
        let (found, _) = of_entities(&table.store, &ids, Duration::ZERO, &Silent).await.unwrap();
        Plan::of(&table.store, &found, true).await.unwrap()
    });
    assert_eq!(plan.steps.len(), 1, "{plan:?}");
    plan
}

fn execute(table: &Table, plan: Plan) -> Value {
    let executed = repair::execute(&table.store, plan.steps, &Silent);
    table.runtime.block_on(executed).summary(false)
}

#[test]
fn a_plan_from_before_a_purge_brings_nothing_back() {
    let deleted = |table: &Table, _| table.delete("E", "v0");
    let unchanged = |_: &Table, _| {};
    // The steps revive the latest item, and put version 7.
    for ((table, _), outcome) in [(behind(deleted), "Conflict"), (behind(unchanged), "Purged")] {
        let plan = plan(&table);
        table.json("purge E --yes --wait 0s", 0);
        let done = execute(&table, plan);
        assert_eq!(done[outcome], 1, "{done}");
        assert!(table.items().is_empty(), "{:?}", table.items());
    }
}
