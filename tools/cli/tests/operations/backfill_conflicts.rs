//! `vzero admin backfill` of items whose entities exist: conflicts, their end, and the dry run.

use std::collections::{BTreeMap, BTreeSet};

use aws_sdk_dynamodb::types::ScalarAttributeType as Kind;
use serde_json::{Value, json};
use testkit::command::Run;

use crate::{
    backfill::summary,
    new_table,
    script::{self, other, script_tests},
};

script_tests! {
    fn an_entity_that_an_update_created_is_a_conflict();
    fn a_pruned_entity_is_a_conflict_after_its_request_is_forgotten();
}

/// The dry run decides as the run does.
#[test]
fn a_dry_run_has_the_counts_of_the_run() {
    for (mode, idempotency) in [("inline", "recent"), ("transaction", "recent"), ("inline", "ledger")] {
        let table = new_table();
        let item = |number: u64| json!({"Id": {"S": format!("M{number}")}, "State": {"S": "OK"}});
        let old = other(&table, "Machines", &[("Id", Kind::S)], &[1, 2, 3, 4, 5, 6, 7].map(item));
        // Only a floor is left; versions without a latest item; a latest item that is not counted, with and without versions.
        script::run(
            &table,
            r#"
            @put M1 floor {"Floor": {"N": "5"}}
            @put M2 v1 {"State": {"S": "OK"}}
            @put M3 v0 {"Id": {"S": "M3"}, "State": {"S": "OK"}}
            @put M4 v0 {"Id": {"S": "M4"}, "State": {"S": "OK"}}
            @put M4 v1 {"State": {"S": "OK"}}
            "#,
        );
        let options = format!("--mode {mode} --idempotency {idempotency} --from-table {old}");
        let run = |arguments: &str| table.run(&format!("backfill {arguments} {options}"));
        // M5 to M7 are new. Without version 1, only the request shows that M6 was imported.
        for done in ["Written", "AlreadyThere"] {
            let expected = BTreeMap::from([("Items", 7), (done, 3), ("Refused", 4)]);
            let before = table.items();
            let planned = run("--dry-run");
            assert_eq!(table.items(), before);
            let ran = run("--yes");
            assert_eq!(
                (summary(&planned), summary(&ran)),
                (expected.clone(), expected),
                "{options} {ran:?}"
            );
            let refused = |run: &Run| {
                let lines = run.lines.iter();
                let lines = lines.filter(|line| line.get("Refused").is_some_and(Value::is_string));
                lines.map(ToString::to_string).collect::<BTreeSet<_>>()
            };
            let why =
                "its entity exists, but no latest item counts its versions: run `vzero admin repair --revive` first";
            let expected = ["M1", "M2", "M3", "M4"].map(|id| json!({"Key": {"Id": id}, "Refused": why}).to_string());
            let expected = BTreeSet::from(expected);
            assert_eq!((refused(&planned), refused(&ran)), (expected.clone(), expected));
            table.write(json!({"ID": "M6", "State": null}));
            table.check("prune M6 --keep 1 => 0");
            assert!(!table.run("get M6 --version 1").stdout.contains("OK"));
        }
    }
}
