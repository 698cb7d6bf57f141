//! `vzero admin backfill` of items whose entities exist: conflicts, their end, and the dry run.

use std::collections::{BTreeMap, BTreeSet};

use aws_sdk_dynamodb::types::ScalarAttributeType as Kind;
use serde_json::{Value, json};
use testkit::command::Run;

use crate::{
    backfill::{machines, other, summary},
    new_table,
};

/// Updates before the backfill: their entities lack the attributes of the old items, and are reported.
#[test]
fn an_entity_that_an_update_created_is_a_conflict() {
    for mode in ["stream", "inline", "transaction"] {
        let table = new_table();
        let old = machines(&table);
        table.write(json!({"ID": "M1", "State": "WARNING1"}));
        for state in ["OFF", "OK"] {
            table.run(&format!("put M2 --mode inline --set State={state}"));
        }
        let before = table.items_of("M1");
        for arguments in ["--dry-run", "--yes", "--yes"] {
            let ran = table.run(&format!("backfill --mode {mode} --from-table {old} {arguments}"));
            assert_eq!((ran.code, summary(&ran)["Conflicts"]), (4, 2), "{ran:?}");
            let why = "an update created its entity first, and its attributes are missing there";
            for id in ["M1", "M2"] {
                assert!(
                    ran.lines.contains(&json!({"Key": {"Id": id}, "Conflict": why})),
                    "{ran:?}"
                );
            }
        }
        assert_eq!(table.items_of("M1"), before);
        assert_eq!(table.items_of("M3")["v0"]["Name"]["S"], "Press");
        // The operator adds the missing attributes: the conflict ends with the last one.
        for (id, set, version, conflicts) in [
            ("M1", "--set Id=M1 --set Name=New", "1", 1),
            ("M2", "--set Name=Press", "2", 1),
            ("M2", "--set Id=M2", "3", 0),
        ] {
            let put = format!("put {id} --mode inline --expect {version} {set}");
            assert_eq!(table.run(&put).code, 0);
            for arguments in ["--dry-run", "--yes"] {
                let ran = table.run(&format!("backfill --mode {mode} --from-table {old} {arguments}"));
                let mut expected = BTreeMap::from([("Items", 3), ("AlreadyThere", 3 - conflicts)]);
                if conflicts > 0 {
                    expected.insert("Conflicts", conflicts);
                }
                assert_eq!(summary(&ran), expected, "{ran:?}");
                assert_eq!(ran.code, if conflicts > 0 { 4 } else { 0 });
            }
        }
        // A value of the entity is newer.
        assert_eq!(table.items_of("M1")["v0"]["Name"]["S"], "New");
    }
}

/// The dry run decides as the run does.
#[test]
fn a_dry_run_has_the_counts_of_the_run() {
    for (mode, idempotency) in [("inline", "recent"), ("transaction", "recent"), ("inline", "ledger")] {
        let table = new_table();
        let item = |number: u64| json!({"Id": {"S": format!("M{number}")}, "State": {"S": "OK"}});
        let old = other(
            &table,
            "Machines",
            &[("Id", Kind::S)],
            &(1..=7).map(item).collect::<Vec<_>>(),
        );
        // Only a floor is left.
        table.put(json!({"PK": {"S": "M1"}, "SK": {"S": "floor"}, "Floor": {"N": "5"}}));
        // Versions without a latest item.
        table.put(json!({"PK": {"S": "M2"}, "SK": {"S": "v1"}, "State": {"S": "OK"}}));
        // A latest item that is not counted, with and without versions.
        table.put(json!({"PK": {"S": "M3"}, "SK": {"S": "v0"}, "Id": {"S": "M3"}, "State": {"S": "OK"}}));
        table.put(json!({"PK": {"S": "M4"}, "SK": {"S": "v0"}, "Id": {"S": "M4"}, "State": {"S": "OK"}}));
        table.put(json!({"PK": {"S": "M4"}, "SK": {"S": "v1"}, "State": {"S": "OK"}}));
        let options = format!("--mode {mode} --idempotency {idempotency} --from-table {old}");
        let run = |arguments: &str| table.run(&format!("backfill {arguments} {options}"));
        // M5 to M7 are new.
        let first = BTreeMap::from([("Items", 7), ("Written", 3), ("Refused", 4)]);
        // Without version 1, only the request shows that M6 was imported.
        let second = BTreeMap::from([("Items", 7), ("AlreadyThere", 3), ("Refused", 4)]);
        for expected in [first, second] {
            let before = table.items();
            let planned = run("--dry-run");
            assert_eq!(table.items(), before);
            assert_eq!(summary(&planned), expected, "{mode} {idempotency} {planned:?}");
            let ran = run("--yes");
            assert_eq!(summary(&ran), expected, "{mode} {idempotency} {ran:?}");
            let refused = |run: &Run| {
                let lines = run
                    .lines
                    .iter()
                    .filter(|line| line.get("Refused").is_some_and(Value::is_string));
                lines.map(ToString::to_string).collect::<BTreeSet<_>>()
            };
            assert_eq!(refused(&planned), refused(&ran));
            for id in ["M1", "M2", "M3", "M4"] {
                let why = "its entity exists, but no latest item counts its versions: run `vzero admin repair --revive` first";
                assert!(
                    ran.lines.contains(&json!({"Key": {"Id": id}, "Refused": why})),
                    "{ran:?}"
                );
            }
            table.write(json!({"ID": "M6", "State": null}));
            assert_eq!(table.run("prune M6 --keep 1").code, 0);
            assert!(!table.run("get M6 --version 1").stdout.contains("OK"));
        }
    }
}

/// Without version 1, an entity of an earlier run that lacks attributes looks like one that an update created.
#[test]
fn a_pruned_entity_is_a_conflict_after_its_request_is_forgotten() {
    let table = new_table();
    let old = machines(&table);
    let run = || table.run(&format!("backfill --yes --mode inline --from-table {old}"));
    assert_eq!(run().code, 0);
    for number in 0..120 {
        table.run(&format!("put M1 --mode inline --set N={number}"));
        if number == 0 {
            // The request is still among the recent ones.
            assert_eq!(table.run("prune M1 --keep 1").code, 0);
            assert_eq!(run().code, 0);
        }
    }
    // The entity has all attributes of the item.
    let ran = run();
    assert_eq!((ran.code, summary(&ran)["AlreadyThere"]), (0, 3), "{ran:?}");
    table.write(json!({"ID": "M1", "State": null}));
    let ran = run();
    assert_eq!((ran.code, summary(&ran)["Conflicts"]), (4, 1), "{ran:?}");
    let why = "its attributes are missing in its entity, and it is not known whether it was imported, because version 1 is \
               not in history";
    assert_eq!(ran.lines[0], json!({"Key": {"Id": "M1"}, "Conflict": why}));
}
