//! `vzero admin purge`, and what redrive, repair and audit do with purged versions.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::Path,
};

use serde_json::json;
use testkit::{
    command::{Run, members},
    table::{Document, Record, Table},
};

use crate::{
    new_table,
    prune::versions,
    script::{self, script_tests},
};

script_tests! {
    fn a_purge_deletes_everything_after_asking();
    fn a_repair_does_not_revive_a_purged_entity();
}

#[test]
fn a_purge_reports_concurrent_updates() {
    let table = new_table();
    for _ in 0..3 {
        versions(&table, 40);
        let child = table.start("purge E --yes --wait 1s");
        for number in 1..=20 {
            table.write_beside_purge(json!({"ID": "E", "State": number}));
        }
        let ran = Run::wait(child);
        // Either the purge deleted everything, and the entity started again, or it reports a writer.
        let is_reported = ran.code == 4 && ran.stderr.contains("it is being written");
        assert!(
            is_reported || ran.code == 0 && !table.items_of("E").contains_key("v0"),
            "{ran:?}"
        );
        table.run("purge E --yes --wait 0s");
        assert!(table.items_of("E").is_empty());
    }
}

/// Returns the number of markers of purged entities.
fn markers(table: &Table) -> usize {
    let reserved = table.reserved_items();
    reserved.iter().filter(|key| key.starts_with("#vzero#purged#")).count()
}

#[test]
fn a_purge_waits_for_the_stream_and_says_so() {
    let table = new_table();
    table.write(json!({"ID": "E", "State": 1}));
    table.check("purge E --dry-run => 0");
    assert_eq!(
        (markers(&table), table.items_of("E").len()),
        (0, 2),
        "a dry run writes no marker"
    );
    let mut child = table.start("purge E --yes");
    let mut note = String::new();
    BufReader::new(child.stderr.take().unwrap())
        .read_line(&mut note)
        .unwrap();
    // The time of the first deletions is part of the 90 s.
    let seconds = note.strip_prefix("note: waiting ").unwrap().split(' ').next().unwrap();
    assert!((80..=90).contains(&seconds.parse().unwrap()), "{note}");
    assert!(
        note.ends_with(" s for versions that are still in the stream\n"),
        "{note}"
    );
    // The marker was written first, then all other items were deleted. An interruption keeps the latest item.
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(markers(&table), 1);
    // A second purge completes it. Other commands ignore the marker.
    let text = r#"
        @keys E => ~ ["v0"]
        purge E --yes --wait 0s => {"Deleted": {"v0": 1}}
        purge E --yes => 3
        @keys E => ~ []
        audit --all --lag 0 => Entities [0]
        prune --all --keep 1 => Entities [0]
        repair --all --lag 0 --yes => Entities [0]
        backfill --yes --from-table TABLE --id copy-{PK}{SK} => {"Written": 0, "Refused": 0} => 0 …
        items RESERVED => 2
        "#;
    let reserved = &table.reserved_items()[0];
    script::run(
        &table,
        &text.replace("TABLE", &table.name).replace("RESERVED", reserved),
    );
    assert_eq!(markers(&table), 1);
}

fn keep(folder: &Path, name: &str, document: &Document) {
    fs::write(folder.join(name), document.body.to_string()).unwrap();
}

/// Returns a table with an entity whose records failed, and that was purged. The entity exists again, with a gap at version 2.
fn purged_and_created_again(folder: &Path) -> (Table, Vec<Record>) {
    let table = new_table();
    table.write_versions("E", 3);
    keep(folder, "purged", &table.document(&table.records()));
    table.check("purge E --yes --wait 0s => 0");
    table.write_versions("E", 3);
    let records = table.records();
    assert_eq!(records.len(), 6);
    keep(
        folder,
        "new",
        &table.document(&[records[3].clone(), records[5].clone()]),
    );
    (table, records)
}

#[test]
fn purged_versions_are_neither_redriven_nor_used_by_a_repair() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let (table, records) = purged_and_created_again(folder.path());
    // A second redrive changes nothing. Version 2 of the purged entity is in a document.
    let text = r#"
        redrive PATH --dry-run => {"Documents": 2, "Records": 5, "Recorded": 2, "AlreadyRecorded": 0, "Purged": 3}
        redrive PATH => {"Documents": 2, "Records": 5, "Recorded": 2, "AlreadyRecorded": 0, "Purged": 3}
        redrive PATH => {"Documents": 2, "Records": 5, "Recorded": 0, "AlreadyRecorded": 2, "Purged": 3}
        repair E --lag 0 --yes --from PATH => Why ["it is in none of the sources", null] => 4
        @keys E => ~ ["v0","v1","v3"]
        "#;
    script::run(&table, &text.replace("PATH", path));
    // The stream has both.
    let lines = table.lines(&format!("repair E --lag 0 --yes --from {path} --stream"), 0);
    assert_eq!(
        members(&lines[0], &["Step", "Version", "Source"]),
        json!(["Record", 2, "the stream"])
    );
    let items = table.items_of("E");
    for (key, record) in [("v1", &records[3]), ("v2", &records[4]), ("v3", &records[5])] {
        assert_eq!(
            items[key]["RequestId"],
            record.json()["dynamodb"]["NewImage"]["RequestId"]
        );
    }
}
