//! Records in quarantine: `vzero admin quarantine`, and the commands that find and release them.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the message")]

use serde_json::{Value, json};
use testkit::table::Table;

fn new_table() -> Table {
    Table::new(env!("CARGO_BIN_EXE_vzero"))
}

fn image(id: &str, latest: &Value, state: &str) -> Value {
    json!({"PK": {"S": id}, "SK": {"S": "v0"}, "Latest": latest, "State": {"S": state}})
}

fn seven() -> Value {
    json!({"N": "7"})
}

/// A table with an entity whose version 7 is in conflict, with another malformed record, and one whose version 7 is missing.
fn poisoned() -> (Table, [Value; 3]) {
    let table = new_table();
    table.put(json!({"PK": {"S": "E#1"}, "SK": {"S": "v7"}, "State": {"S": "manual"}}));
    table.put(image("E#1", &seven(), "manual"));
    let malformed = image("E#1", &json!({"S": "seven"}), "BAD");
    let records = [
        table.quarantine("E#1", "9", "Conflict", &image("E#1", &seven(), "BAD")),
        table.quarantine("E#1", "10", "Malformed", &malformed),
        table.quarantine("F", "11", "Conflict", &image("F", &seven(), "OK")),
    ];
    (table, records)
}

fn nonzero(summary: &Value) -> Value {
    let counts = summary.as_object().unwrap().iter();
    let counts = counts.filter(|(_, count)| count.is_u64() && **count != 0);
    counts.map(|(name, count)| (name.clone(), count.clone())).collect()
}

#[test]
fn records_are_listed_with_their_reason_and_image() {
    let (table, records) = poisoned();
    table.write_versions("G", 1);
    let listed = |arguments: &[&str]| {
        let mut lines = table.lines(&[&["quarantine"], arguments].concat(), 0);
        lines.sort_by_key(|line| line["ID"].to_string());
        lines
    };
    let all = listed(&[]);
    let numbers: Vec<_> = all.iter().map(|line| line["SequenceNumber"].clone()).collect();
    assert_eq!(numbers, ["9", "10", "11"]);
    let expected = json!({
        "ID": "E#1", "SequenceNumber": "9", "Kind": "Conflict", "Reason": "a reason", "Version": 7,
        "QuarantinedAt": "2026-11-22T06:24:48.000000000Z", "Record": records[0],
    });
    assert_eq!(all[0], expected);
    assert_eq!((&all[1]["Version"], &all[1]["Record"]), (&Value::Null, &records[1]));
    assert_eq!(listed(&["E#1"]), all[..2]);
    assert_eq!(listed(&["F", "E#1", "--max-read-units", "1000"]), all);
    assert_eq!(listed(&["G"]), Vec::<Value>::new());
    let shown = table.run(&["--output", "table", "quarantine", "F"]).stdout;
    let cells = ["SequenceNumber", "11", "Conflict", "a reason"];
    assert!(cells.iter().all(|text| shown.contains(text)), "{shown}");
    let shown = table.run(&["--output", "table", "quarantine", "G"]).stdout;
    assert_eq!(shown, "no record is in quarantine\n");
    // They are items of the entity, but no versions.
    let items = table.lines(&["items", "F"], 0);
    assert_eq!(items.len(), 1, "{items:?}");
    assert_eq!(table.run(&["history", "F"]).lines.len(), 0);
}

#[test]
fn an_audit_reports_records_in_quarantine() {
    let (table, _) = poisoned();
    for arguments in [&["--all"][..], &["E#1", "F"]] {
        let mut lines = table.lines(&[&["audit", "--lag", "0"], arguments].concat(), 4);
        let summary = lines.pop().unwrap();
        lines.retain(|line| line["Finding"] == "Quarantined");
        lines.sort_by_key(|line| line["ID"].to_string());
        let of = |id: &str, records: u64| json!({"ID": id, "Finding": "Quarantined", "Records": records});
        assert_eq!(lines, [of("E#1", 2), of("F", 1)]);
        assert_eq!(summary["Findings"]["Quarantined"], 2, "{arguments:?}");
    }
}

#[test]
fn a_redrive_releases_a_record_whose_version_can_be_stored() {
    let (table, _) = poisoned();
    let redrive = |arguments: &[&str], code: i32| nonzero(&table.json(&[&["redrive"], arguments].concat(), code));
    // Its latest item does not count the version, as after a purge.
    let counts = json!({"Documents": 1, "Records": 1, "AboveLatest": 1, "QuarantineKept": 1});
    assert_eq!(redrive(&["quarantine:F"], 4), counts);
    table.put(image("F", &seven(), "OK"));
    let before = table.items();
    let counts =
        json!({"Documents": 3, "Records": 3, "Recorded": 1, "Conflict": 1, "Malformed": 1, "QuarantineKept": 3});
    assert_eq!(redrive(&["quarantine:", "--dry-run"], 4), counts);
    assert_eq!(table.items(), before);
    let counts = json!({"Documents": 1, "Records": 1, "Recorded": 1, "QuarantineDeleted": 1});
    assert_eq!(redrive(&["quarantine:F"], 0), counts);
    assert_eq!(table.items_of("F").keys().collect::<Vec<_>>(), ["v0", "v7"]);
    assert_eq!(redrive(&["quarantine:F"], 0), json!({}));
    // An operator decides about the others. The existing item stays.
    let counts = json!({"Documents": 2, "Records": 2, "Conflict": 1, "Malformed": 1, "QuarantineKept": 2});
    assert_eq!(redrive(&["quarantine:"], 4), counts);
    // Not of the whole table by mistake, and not before a source that does not exist.
    let kept = table.items();
    for option in ["--drop-conflicts", "--drop-malformed"] {
        assert_eq!(table.run(&["redrive", "quarantine:", option]).code, 2);
    }
    let typing_error = ["redrive", "quarantine:", "E#1", "--drop-malformed", "--yes"];
    assert_eq!(table.run(&typing_error).code, 3);
    assert_eq!(table.items(), kept);
    let dropped = redrive(&["quarantine:", "--drop-conflicts", "--yes"], 4);
    assert_eq!(dropped["QuarantineDeleted"], 1);
    let left = table.lines(&["quarantine"], 0);
    assert_eq!((left.len(), &left[0]["Kind"]), (1, &json!("Malformed")));
    let dropped = redrive(&["quarantine:E#1", "--drop-malformed"], 4);
    assert_eq!(dropped["QuarantineDeleted"], 1);
    assert_eq!(table.items_of("E#1")["v7"]["State"], json!({"S": "manual"}));
    assert_eq!(table.items_of("E#1").len(), 2);
    assert_eq!(table.run(&["redrive", "quarantine:#vzero"]).code, 2);
}

#[test]
fn a_repair_releases_a_record_whose_version_is_missing() {
    let (table, _) = poisoned();
    table.write_versions("G", 2);
    let images = table.records().into_iter();
    let mut images = images.map(|record| record.json()["dynamodb"]["NewImage"].clone());
    let missing = images.find(|image| image["Latest"]["N"] == "1").unwrap();
    table.quarantine("G", "12", "Conflict", &missing);
    let mut lines = table.lines(&["repair", "--all", "--yes", "--lag", "0"], 4);
    let summary = lines.pop().unwrap();
    lines.sort_by_key(|line| (line["ID"].to_string(), line["SequenceNumber"].to_string()));
    let step = |id: &str, number: &str, version: u64| json!({"ID": id, "Step": "Release", "Version": version, "SequenceNumber": number});
    let steps: Vec<_> = lines.iter().filter(|line| line["Step"] == "Release").cloned().collect();
    assert_eq!(steps, [step("F", "11", 7), step("G", "12", 1)]);
    let left: Vec<_> = lines.iter().filter(|line| line["Finding"] == "Quarantined").collect();
    assert_eq!(left.len(), 2, "{lines:?}");
    for (left, option) in left.iter().zip(["--drop-malformed", "--drop-conflicts"]) {
        assert!(left["Why"].as_str().unwrap().contains(option), "{left}");
    }
    // Versions of F, and both of G.
    assert_eq!(summary["Recorded"], 3, "{summary}");
    assert_eq!(table.items_of("G").keys().collect::<Vec<_>>(), ["v0", "v1", "v2"]);
    assert_eq!(table.lines(&["audit", "G", "--lag", "0"], 0).len(), 1);
}

#[test]
fn a_purge_deletes_records_in_quarantine() {
    let (table, _) = poisoned();
    let purged = table.json(&["purge", "E#1", "--yes", "--wait", "0s"], 0);
    assert_eq!(purged["Deleted"], json!({"v0": 1, "versions": 1, "quarantined": 2}));
    assert!(table.items_of("E#1").is_empty());
}

#[test]
fn a_repair_does_not_choose_between_records_and_names_commands_for_any_key() {
    let table = new_table();
    let id = "a b'#$(c)";
    for (number, state) in [("1", "FIRST"), ("2", "SECOND")] {
        table.quarantine(id, number, "Conflict", &image(id, &seven(), state));
    }
    // DynamoDB would reject it again.
    let large = image("large", &seven(), "OK");
    table.quarantine("large", "3", "Rejected", &large);
    let far = json!({"N": "1000000000000"});
    table.quarantine("far", "4", "Conflict", &image("far", &far, "OK"));
    let mut lines = table.lines(&["repair", "--all", "--yes", "--lag", "0"], 4);
    let summary = lines.pop().unwrap();
    assert_eq!(
        (&summary["Recorded"], &summary["Left"], &summary["Failed"]),
        (&json!(0), &json!(4), &json!(0))
    );
    let why: Vec<_> = lines.iter().map(|line| line["Why"].as_str().unwrap()).collect();
    let quoted = r"'quarantine:a b'\''#$(c)'";
    assert_eq!(why.iter().filter(|why| why.contains(quoted)).count(), 2, "{why:?}");
    assert!(
        why.iter().any(|why| why.contains("quarantine:large --drop-malformed")),
        "{why:?}"
    );
    assert!(why.iter().any(|why| why.contains("more than 10000 above")), "{why:?}");
    assert_eq!(table.lines(&["quarantine"], 0).len(), 4);
    // The version exists: nothing is put, and the record leaves.
    table.put(json!({"PK": {"S": "large"}, "SK": {"S": "v7"}, "State": {"S": "OK"}}));
    let lines = table.lines(&["repair", "large", "--yes", "--lag", "0"], 4);
    assert_eq!(lines[0]["Step"], "Release");
    assert_eq!(table.lines(&["quarantine", "large"], 0).len(), 0);
}

#[test]
fn versions_are_released_before_a_latest_item_gets_its_number() {
    let table = new_table();
    table.write_versions("E", 4);
    table.json(&["redrive", "quarantine:"], 0);
    for record in table.records() {
        let version = record.json()["dynamodb"]["NewImage"].clone();
        table.quarantine("E", version["Latest"]["N"].as_str().unwrap(), "Conflict", &version);
    }
    table.put(json!({"PK": {"S": "E"}, "SK": {"S": "v0"}, "State": {"S": "manual"}}));
    // The plan cannot know the number: it is made before the versions are put.
    let run = table.run(&["repair", "E", "--yes", "--lag", "0"]);
    assert_eq!(run.code, 4, "{run:?}");
    assert_eq!(table.run(&["repair", "E", "--yes", "--lag", "0"]).code, 0);
    assert_eq!(table.items_of("E")["v0"]["Latest"], json!({"N": "5"}));
    table.lines(&["audit", "E", "--lag", "0"], 0);
}
