//! `vzero admin purge`, and what redrive, repair and audit do with purged versions.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::Path,
};

use serde_json::json;
use testkit::{
    command::members,
    table::{Document, Record, Table},
};

use crate::{
    new_table,
    prune::{days, line},
    version,
};

#[test]
fn a_purge_deletes_everything_after_asking() {
    let table = new_table();
    days(&table, 60);
    table.write(json!({"ID": "F", "State": 1}));
    for key in ["Metadata", "2020-01-01T00:00:00", "request#1", "mine"] {
        table.put(json!({"PK": {"S": "E"}, "SK": {"S": key}}));
    }
    let all = r#"{"v0": 1, "versions": 60, "floor": 1, "metadata": 1, "requests": 1, "states": 1, "other": 1}"#;
    // The item of the table's settings is no entity.
    table.check(&format!(
        r#"
        prune E --keep 1 => {{"Floor": 60}}
        purge E --dry-run => = {{"ID": "E", "WouldDelete": {all}}}
        purge E => 2
        purge #vzero --yes => 2
        put #vzero --set A=1 => 2
        "#
    ));
    for (command, said) in [
        ("purge E", "--yes"),
        ("purge #vzero --yes", "reserved"),
        ("put #vzero --set A=1", "reserved"),
    ] {
        assert!(table.run(command).stderr.contains(said), "{command}");
    }
    assert_eq!(table.items_of("E").len(), 66);
    table.check(&format!(
        r#"purge E --yes --wait 0s => = {{"ID": "E", "Deleted": {all}}}"#
    ));
    assert!(table.items_of("E").is_empty());
    assert_eq!(table.items_of("F").len(), 2);
    // The items that a killed purge leaves, without a latest item or with one.
    table.put(version("G", 7));
    table.put(json!({"PK": {"S": "H"}, "SK": {"S": "v0"}}));
    table.check(
        r#"
        purge E --yes => 3
        purge G --yes --wait 0s => {"Deleted": {"versions": 1}}
        purge H --yes --wait 0s => {"Deleted": {"v0": 1}}
        "#,
    );
}

#[test]
fn a_purge_reports_concurrent_updates() {
    let table = new_table();
    for _ in 0..3 {
        for number in 1..=40 {
            table.write(json!({"ID": "E", "State": number}));
        }
        let child = table.start("purge E --yes --wait 1s");
        for number in 1..=20 {
            table.write_beside_purge(json!({"ID": "E", "State": number}));
        }
        let ran = testkit::command::Run::wait(child);
        // Either the purge deleted everything, and the entity started again, or it reports a writer.
        assert!(ran.code == 0 || ran.code == 4, "{ran:?}");
        if ran.code == 4 {
            assert!(ran.stderr.contains("it is being written"), "{ran:?}");
        }
        let head = table.items_of("E").get("v0").map(|item| item["Latest"]["N"].clone());
        assert!(ran.code == 4 || head.is_none(), "{ran:?} {head:?}");
        table.run("purge E --yes --wait 0s");
        assert!(table.items_of("E").is_empty());
    }
}

/// Returns the number of items of the table that are neither settings nor an entity.
fn markers(table: &Table) -> usize {
    let reserved = table.reserved_items();
    reserved.iter().filter(|key| key.starts_with("#vzero#purged#")).count()
}

#[test]
fn a_purge_waits_for_the_stream_and_says_so() {
    let table = new_table();
    table.write(json!({"ID": "E", "State": 1}));
    let mut child = table.start("purge E --yes");
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut note = String::new();
    stderr.read_line(&mut note).unwrap();
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
    assert_eq!(table.items_of("E").into_keys().collect::<Vec<_>>(), ["v0"]);
    // A second purge completes it.
    table.check(
        r#"
        purge E --yes --wait 0s => {"Deleted": {"v0": 1}}
        purge E --yes => 3
        "#,
    );
    assert!(table.items_of("E").is_empty());
    assert_eq!(markers(&table), 1);
}

#[test]
fn a_dry_run_of_a_purge_writes_no_marker() {
    let table = new_table();
    table.write(json!({"ID": "E", "State": 1}));
    line(&table, "purge E --dry-run");
    assert_eq!((markers(&table), table.items_of("E").len()), (0, 2));
}

fn keep(folder: &Path, name: &str, document: &Document) {
    fs::write(folder.join(name), document.body.to_string()).unwrap();
}

/// Returns a table with an entity whose records failed, and that was purged. The entity exists again, with a gap at version 2.
fn purged_and_created_again(folder: &Path) -> (Table, Vec<Record>) {
    let table = new_table();
    table.write_versions("E", 3);
    keep(folder, "purged", &table.document(&table.records()));
    line(&table, "purge E --yes --wait 0s");
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
fn a_redrive_reports_purged_versions_and_writes_none() {
    const COUNTS: [&str; 5] = ["Documents", "Records", "Recorded", "AlreadyRecorded", "Purged"];
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let (table, records) = purged_and_created_again(folder.path());
    let dry = table.json(&format!("redrive {path} --dry-run"), 0);
    assert_eq!(members(&dry, &COUNTS), json!([2, 5, 2, 0, 3]));
    let answer = table.json(&format!("redrive {path}"), 0);
    assert_eq!(members(&answer, &COUNTS), json!([2, 5, 2, 0, 3]));
    let keys: Vec<_> = table.items_of("E").into_keys().collect();
    assert_eq!(keys, ["v0", "v1", "v3"]);
    for (key, record) in [("v1", &records[3]), ("v3", &records[5])] {
        let expected = &record.json()["dynamodb"]["NewImage"]["RequestId"];
        assert_eq!(&table.items_of("E")[key]["RequestId"], expected);
    }
    // A second redrive changes nothing.
    let answer = table.json(&format!("redrive {path}"), 0);
    assert_eq!(members(&answer, &COUNTS), json!([2, 5, 0, 2, 3]));
}

#[test]
fn a_repair_does_not_use_purged_versions() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let (table, records) = purged_and_created_again(folder.path());
    table.json(&format!("redrive {path}"), 0);
    let before = table.items_of("E");
    // Version 2 of the purged entity is in a document.
    let repair = format!("repair E --lag 0 --yes --from {path}");
    let lines = table.lines(&repair, 4);
    assert_eq!(lines[0]["Why"], "it is in none of the sources");
    assert_eq!(table.items_of("E"), before);
    // The stream has both.
    let lines = table.lines(&format!("{repair} --stream"), 0);
    assert_eq!(
        members(&lines[0], &["Step", "Version", "Source"]),
        json!(["Record", 2, "the stream"])
    );
    let expected = &records[4].json()["dynamodb"]["NewImage"]["RequestId"];
    assert_eq!(&table.items_of("E")["v2"]["RequestId"], expected);
}

#[test]
fn a_repair_does_not_revive_a_purged_entity() {
    let table = new_table();
    table.write(json!({"ID": "E", "State": 1}));
    let purged = table.items_of("E")["v1"].clone();
    line(&table, "purge E --yes --wait 0s");
    // A backup was restored into the table.
    table.put(purged);
    let lines = table.lines("repair E --lag 0 --yes --revive", 4);
    let expected = "the entity was purged; vzero admin purge deletes these versions";
    assert_eq!(
        members(&lines[0], &["Finding", "Step", "Why"]),
        json!(["Orphan", "None", expected])
    );
    assert!(!table.items_of("E").contains_key("v0"));
    line(&table, "purge E --yes --wait 0s");
    assert!(table.items_of("E").is_empty());
}

#[test]
fn audits_prunes_and_backfills_ignore_purge_markers() {
    let table = new_table();
    table.write(json!({"ID": "E", "State": 1}));
    line(&table, "purge E --yes --wait 0s");
    table.check(&format!(
        r#"
        audit --all --lag 0 => Entities [0]
        prune --all --keep 1 => Entities [0]
        repair --all --lag 0 --yes => Entities [0]
        backfill --yes --from-table {} --id copy-{{PK}}{{SK}} => {{"Written": 0, "Refused": 0}} => 0 …
        items {} => 2
        "#,
        table.name,
        table.reserved_items()[0]
    ));
    assert_eq!(markers(&table), 1);
}
