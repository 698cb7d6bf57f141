//! Records in quarantine: `vzero admin quarantine`, and the commands that find and release them.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the message")]

use serde_json::{Value, json};
use testkit::table::Table;

fn new_table() -> Table {
    Table::new(env!("CARGO_BIN_EXE_vzero"))
}

fn image(id: &str, latest: &str, state: &str) -> Value {
    json!({"PK": {"S": id}, "SK": {"S": "v0"}, "Latest": {"N": latest}, "State": {"S": state}})
}

fn version(id: &str, number: u64, state: &str) -> Value {
    json!({"PK": {"S": id}, "SK": {"S": format!("v{number}")}, "State": {"S": state}})
}

/// A table with an entity whose version 7 is in conflict, with another malformed record, and one whose version 7 is missing.
fn poisoned() -> (Table, [Value; 3]) {
    let table = new_table();
    table.put(version("E#1", 7, "manual"));
    table.put(image("E#1", "7", "manual"));
    let mut malformed = image("E#1", "7", "BAD");
    malformed["Latest"] = json!({"S": "seven"});
    let records = [
        table.quarantine("E#1", "9", "Conflict", &image("E#1", "7", "BAD")),
        table.quarantine("E#1", "10", "Malformed", &malformed),
        table.quarantine("F", "11", "Conflict", &image("F", "7", "OK")),
    ];
    (table, records)
}

fn keys_of(table: &Table, id: &str) -> Vec<String> {
    table.items_of(id).into_keys().collect()
}

#[test]
fn records_are_listed_with_their_reason_and_image() {
    let (table, records) = poisoned();
    table.write_versions("G", 1);
    let listed = |arguments: &str| {
        let mut lines = table.lines(&format!("quarantine {arguments}"), 0);
        lines.sort_by_key(|line| line["ID"].to_string());
        lines
    };
    let all = listed("");
    let expected = json!({
        "ID": "E#1", "SequenceNumber": "9", "Kind": "Conflict", "Reason": "a reason", "Version": 7,
        "QuarantinedAt": "2026-11-22T06:24:48.000000000Z", "Record": records[0],
    });
    assert_eq!(all[0], expected);
    assert_eq!((&all[1]["Version"], &all[1]["Record"]), (&Value::Null, &records[1]));
    assert_eq!(listed("E#1"), all[..2]);
    assert_eq!(listed("F E#1 --max-read-units 1000"), all);
    // They are items of the entity, but no versions.
    table.check(
        "quarantine E#1 F => SequenceNumber [\"9\", \"10\", \"11\"]
         quarantine G => ID []
         --output table quarantine F => ~ SequenceNumber => ~ 11 => ~ Conflict => ~ a reason
         --output table quarantine G => ~ no record is in quarantine
         items F => SK [\"quarantine#11\"]
         history F => 3 error: there is no F…",
    );
}

#[test]
fn an_audit_reports_them_and_a_purge_deletes_them() {
    let (table, _) = poisoned();
    for scope in ["--all", "E#1 F"] {
        let mut lines = table.lines(&format!("audit --lag 0 {scope}"), 4);
        assert_eq!(lines.pop().unwrap()["Findings"]["Quarantined"], 2);
        lines.retain(|line| line["Finding"] == "Quarantined");
        lines.sort_by_key(|line| line["ID"].to_string());
        let of = |id: &str, records: u64| json!({"ID": id, "Finding": "Quarantined", "Records": records});
        assert_eq!(lines, [of("E#1", 2), of("F", 1)]);
    }
    table.check(r#"purge E#1 --yes --wait 0s => {"Deleted": {"v0": 1, "versions": 1, "quarantined": 2}}"#);
    assert!(table.items_of("E#1").is_empty());
}

#[test]
fn a_redrive_releases_a_record_whose_version_can_be_stored() {
    let (table, _) = poisoned();
    // Its latest item does not count the version, as after a purge.
    table
        .check(r#"redrive quarantine:F => {"Documents": 1, "Records": 1, "AboveLatest": 1, "QuarantineKept": 1} => 4"#);
    table.put(image("F", "7", "OK"));
    let before = table.items();
    table.check(
        r#"redrive quarantine: --dry-run => {"Records": 3, "Recorded": 1, "Conflict": 1, "Malformed": 1, "QuarantineKept": 3} => 4"#,
    );
    assert_eq!(table.items(), before);
    table.check(r#"redrive quarantine:F => {"Documents": 1, "Records": 1, "Recorded": 1, "QuarantineDeleted": 1}"#);
    assert_eq!(keys_of(&table, "F"), ["v0", "v7"]);
    // An operator decides about the others. Not of the whole table by mistake, and not before a source that does not exist.
    let kept = table.items();
    table.check(
        r#"redrive quarantine:F => {"Documents": 0}
           redrive quarantine: => {"Documents": 2, "Records": 2, "Conflict": 1, "Malformed": 1, "QuarantineKept": 2} => 4
           redrive quarantine: --drop-conflicts => 2
           redrive quarantine: --drop-malformed => 2
           redrive quarantine: E#1 --drop-malformed --yes => {"Documents": 0} => 3
           redrive quarantine:#vzero => {"Documents": 0} => 2"#,
    );
    assert_eq!(table.items(), kept);
    // The existing item stays.
    table.check(
        r#"redrive quarantine: --drop-conflicts --yes => {"QuarantineDeleted": 1} => 4
           quarantine => Kind ["Malformed"]
           redrive quarantine:E#1 --drop-malformed => {"QuarantineDeleted": 1} => 4"#,
    );
    assert_eq!(table.items_of("E#1")["v7"]["State"], json!({"S": "manual"}));
    assert_eq!(keys_of(&table, "E#1"), ["v0", "v7"]);
}

#[test]
fn a_repair_releases_a_record_whose_version_is_missing() {
    let (table, _) = poisoned();
    table.write_versions("G", 2);
    let images = table.records().into_iter();
    let mut images = images.map(|record| record.json()["dynamodb"]["NewImage"].clone());
    let missing = images.find(|image| image["Latest"]["N"] == "1").unwrap();
    table.quarantine("G", "12", "Conflict", &missing);
    let mut lines = table.lines("repair --all --yes --lag 0", 4);
    // Versions of F, and both of G.
    assert_eq!(lines.pop().unwrap()["Recorded"], 3);
    lines.sort_by_key(|line| (line["ID"].to_string(), line["SequenceNumber"].to_string()));
    let step = |id: &str, number: &str, version: u64| json!({"ID": id, "Step": "Release", "Version": version, "SequenceNumber": number});
    let steps: Vec<_> = lines.iter().filter(|line| line["Step"] == "Release").cloned().collect();
    assert_eq!(steps, [step("F", "11", 7), step("G", "12", 1)]);
    let left = lines.iter().filter(|line| line["Finding"] == "Quarantined");
    let left: Vec<_> = left.map(|line| line["Why"].as_str().unwrap()).collect();
    assert!(
        left[0].contains("--drop-malformed") && left[1].contains("--drop-conflicts"),
        "{left:?}"
    );
    assert_eq!(keys_of(&table, "G"), ["v0", "v1", "v2"]);
    table.check("audit G --lag 0");
}

#[test]
fn a_repair_does_not_choose_between_records_and_names_commands_for_any_key() {
    let table = new_table();
    let id = "a b'#$(c)";
    for (number, state) in [("1", "FIRST"), ("2", "SECOND")] {
        table.quarantine(id, number, "Conflict", &image(id, "7", state));
    }
    // DynamoDB would reject it again.
    table.quarantine("large", "3", "Rejected", &image("large", "7", "OK"));
    table.quarantine("far", "4", "Conflict", &image("far", "1000000000000", "OK"));
    let mut lines = table.lines("repair --all --yes --lag 0", 4);
    let summary = lines.pop().unwrap();
    assert_eq!((&summary["Recorded"], &summary["Left"]), (&json!(0), &json!(4)));
    for (why, count) in [
        (r"'quarantine:a b'\''#$(c)'", 2),
        ("quarantine:large --drop-malformed", 1),
        ("more than 10000 above", 1),
    ] {
        let named = lines.iter().filter(|line| line["Why"].as_str().unwrap().contains(why));
        assert_eq!(named.count(), count, "{why}: {lines:?}");
    }
    assert_eq!(table.lines("quarantine", 0).len(), 4);
    // The version exists: nothing is put, and the record leaves.
    table.put(version("large", 7, "OK"));
    table.check(
        r#"repair large --yes --lag 0 => Step ["Release", "None", null] => 4
           quarantine large => ID []"#,
    );
}

#[test]
fn versions_are_released_before_a_latest_item_gets_its_number() {
    let table = new_table();
    table.write_versions("E", 4);
    for record in table.records() {
        let version = record.json()["dynamodb"]["NewImage"].clone();
        table.quarantine("E", version["Latest"]["N"].as_str().unwrap(), "Conflict", &version);
    }
    table.put(json!({"PK": {"S": "E"}, "SK": {"S": "v0"}, "State": {"S": "manual"}}));
    // The plan cannot know the number: it is made before the versions are put.
    table.check("repair E --yes --lag 0 => 4\nrepair E --yes --lag 0\naudit E --lag 0");
    assert_eq!(table.items_of("E")["v0"]["Latest"], json!({"N": "5"}));
}
