//! Failure documents and items that were made to damage a table, or the command that reads them.

use std::{fs, path::Path};

use serde_json::{Value, json};
use testkit::{command::members, table::Table};

use super::{latest, new_table, script::script_tests, version};

fn keep(folder: &Path, name: &str, body: &Value) {
    fs::write(folder.join(name), body.to_string()).unwrap();
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Returns a document with one record of a version.
fn document(table: &Table, id: &str, number: &str) -> Value {
    let image = json!({"PK": {"S": id}, "SK": {"S": "v0"}, "Latest": {"N": number}, "A": {"S": "a"}});
    let record = json!({
        "eventName": "MODIFY", "eventSourceARN": table.stream_arn,
        "dynamodb": {"Keys": {"PK": {"S": id}, "SK": {"S": "v0"}}, "NewImage": image, "SequenceNumber": "7"},
    });
    json!({"payload": {"Records": [record]}})
}

/// A document of 4 MB can name 2,000,000 records.
#[cfg(target_os = "linux")]
#[test]
fn a_document_of_very_many_records_needs_little_memory() {
    const MAX_KB: u32 = 1_000_000;
    let table = new_table();
    let folder = tempfile::tempdir().unwrap();
    let records = vec!["7"; 2_000_000].join(",");
    for number in 0..4 {
        let text = format!("{{\"payload\": {{\"Records\": [{records}]}}}}");
        fs::write(folder.path().join(number.to_string()), text).unwrap();
    }
    // Each within the limit, but with more malformed records than are named.
    for number in 4..8 {
        keep(
            folder.path(),
            &number.to_string(),
            &json!({"payload": {"Records": vec![7; 10_000]}}),
        );
    }
    let run = table.run_limited(MAX_KB, &["redrive", text(folder.path()), "--dry-run"]);
    assert_eq!(run.code, 4, "{}", run.stderr);
    let answer = run.json();
    let counts = members(&answer, &["Documents", "NotDocuments", "Malformed", "Omitted"]);
    assert_eq!(counts, json!([4, 4, 40_000, 30_000]));
    assert_eq!(answer["MalformedRecords"].as_array().unwrap().len(), 10_000);
}

#[test]
fn a_version_that_the_latest_item_does_not_count_is_not_written() {
    let table = new_table();
    table.write_versions("E", 2);
    table.write_versions("Deleted", 2);
    table.delete("Deleted", "v0");
    let folder = tempfile::tempdir().unwrap();
    for (name, id, number) in [
        ("1", "E", "3"),
        ("2", "E", "9223372036854775807"),
        ("3", "None", "1"),
        ("4", "Deleted", "1"),
    ] {
        keep(folder.path(), name, &document(&table, id, number));
    }
    keep(folder.path(), "5", &document(&table, "E", "18446744073709551615"));
    keep(folder.path(), "6", &document(&table, "E", "2"));
    let before = table.items();
    let dry = table.json(&["redrive", text(folder.path()), "--dry-run"], 4);
    assert_eq!(table.items(), before);
    let answer = table.json(&["redrive", text(folder.path())], 4);
    for answer in [dry, answer] {
        let counts = members(&answer, &["Records", "Recorded", "AboveLatest", "Malformed"]);
        assert_eq!(counts, json!([6, 1, 4, 1]), "{answer}");
        let mut named: Vec<_> = answer["VersionsAboveLatest"].as_array().unwrap().iter().collect();
        named.sort_by_key(|named| named["Source"].to_string());
        let named: Vec<_> = named
            .into_iter()
            .map(|named| members(named, &["ID", "Version", "Latest"]))
            .collect();
        let expected = [
            json!(["E", 3, 2]),
            json!(["E", 9_223_372_036_854_775_807_u64, 2]),
            json!(["None", 1, null]),
            json!(["Deleted", 1, null]),
        ];
        assert_eq!(named, expected);
    }
    let written: Vec<_> = table
        .items()
        .into_keys()
        .filter(|key| !before.contains_key(key))
        .collect();
    assert_eq!(written, ["E v2"]);
    // The next update gets the next number.
    assert_eq!(table.json(&["put", "E", "--set", "A=b"], 0)["Version"], 3);
}

/// A version that was counted before the counter was lost, and is only in a document.
#[test]
fn a_repair_puts_counted_versions_before_it_continues_the_counter() {
    let table = new_table();
    let folder = tempfile::tempdir().unwrap();
    for (id, latest) in [
        (
            "Overwritten",
            Some(json!({"PK": {"S": "Overwritten"}, "SK": {"S": "v0"}, "A": {"S": "manual"}})),
        ),
        ("SetBack", Some(latest("SetBack", 1))),
        ("Deleted", None),
    ] {
        for n in 0..4 {
            table.write(json!({"ID": id, "n": n}));
        }
        keep(folder.path(), id, &document(&table, id, "5"));
        table.delete(id, "v0");
        if let Some(latest) = latest {
            table.put(latest);
        }
    }
    let redrive = ["redrive", text(folder.path())];
    let answer = table.json(&redrive, 4);
    assert_eq!(answer["AboveLatest"], 3, "{answer}");
    let ids = ["Overwritten", "SetBack", "Deleted"];
    let from = ["--yes", "--revive", "--lag", "0", "--from", text(folder.path())];
    // The number of the latest item is planned before the version is put.
    table.run(&[&["repair"], &ids[..], &from[..]].concat());
    table.lines(&[&["repair"], &ids[..], &from[..]].concat(), 0);
    for id in ids {
        assert_eq!(table.items_of(id)["v5"]["A"], json!({"S": "a"}), "{id}");
    }
    table.lines(&[&["audit", "--lag", "0"], &ids[..]].concat(), 0);
    assert_eq!(
        members(&table.json(&redrive, 0), &["AlreadyRecorded", "AboveLatest"]),
        json!([3, 0])
    );
}

/// A version that is in history already is no failure, also without a latest item.
#[test]
fn a_redrive_of_recorded_versions_can_be_repeated_after_the_latest_item_is_gone() {
    let table = new_table();
    table.write_versions("E", 2);
    let folder = tempfile::tempdir().unwrap();
    keep(folder.path(), "1", &table.document(&table.records()).body);
    let redrive = ["redrive", text(folder.path())];
    table.json(&redrive, 0);
    let v0 = table.items_of("E")["v0"].clone();
    table.delete("E", "v0");
    for arguments in [&redrive[..], &["redrive", text(folder.path()), "--dry-run"]] {
        let answer = table.json(arguments, 0);
        assert_eq!(
            members(&answer, &["AlreadyRecorded", "AboveLatest"]),
            json!([2, 0]),
            "{answer}"
        );
    }
    // Another program lets it expire, but it still counts.
    let mut expired = v0;
    expired["TTL"] = json!({"N": "1"});
    table.put(expired);
    table.delete("E", "v1");
    assert_eq!(table.json(&redrive, 0)["Recorded"], 1);
}

script_tests! {
    fn a_floor_that_no_entity_reaches_is_not_followed();
    fn a_repair_does_not_follow_a_version_that_is_out_of_reach();
}

#[test]
fn reads_end_beside_the_greatest_latest() {
    let table = new_table();
    for (id, number) in [("Far", 9_223_372_036_854_775_807_u64), ("Beyond", u64::MAX)] {
        table.put(latest(id, number));
        table.put(version(id, 1));
    }
    table.check(
        r#"
        history Far --limit 3 => Version [9223372036854775807, 1] => 0 …
        history Far --changes --output json => Version [9223372036854775807, 1] => 0 …
        history Far --oldest-first => Version [1, 9223372036854775807] => 0 …
        history Far --from 9223372036854775807 => Version [9223372036854775807] => 0 …
        history Far --from 18446744073709551615 => 2
        lag Far => {"Latest": 9223372036854775807}
        "#,
    );
    table.lines("audit Far Beyond --lag 0", 4);
    // A number that is not that of a version is an error of the item.
    for arguments in ["history Beyond --limit 3", "get Beyond", "lag Beyond"] {
        let run = table.run(arguments);
        assert!(
            run.stderr.contains("Latest is above 9223372036854775807") && (3..6).contains(&run.code),
            "{run:?}"
        );
    }
    let before = table.items_of("Beyond");
    table.run("repair Far Beyond --yes --lag 0");
    assert_eq!(table.items_of("Beyond"), before);
}
