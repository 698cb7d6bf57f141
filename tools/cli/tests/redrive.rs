//! `vzero admin redrive` from files.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the message")]

use std::{fs, path::Path};

use serde_json::{Value, json};
use testkit::{
    command::members,
    table::{Table, number, with_open_payload},
};

fn new_table() -> Table {
    Table::new(env!("CARGO_BIN_EXE_vzero"))
}

fn keep(folder: &Path, name: &str, body: &Value) {
    fs::write(folder.join(name), body.to_string()).unwrap();
}

fn without_payload(mut body: Value) -> Value {
    body.as_object_mut().unwrap().remove("payload");
    body
}

/// Redrives a path, with more arguments. Expects this exit code and these counts: documents, records, recorded, already recorded.
fn redrive(table: &Table, path: &Path, more: &str, code: i32, counts: [u64; 4]) -> Value {
    let summary = table.json(&format!("redrive {} {more}", path.display()), code);
    let names = ["Documents", "Records", "Recorded", "AlreadyRecorded"];
    assert_eq!(members(&summary, &names), json!(counts), "{summary}");
    summary
}

#[test]
fn a_second_redrive_and_a_dry_run_change_nothing() {
    let table = new_table();
    table.write_versions("E", 3);
    table.write_versions("F", 2);
    let records = table.records();
    let folder = tempfile::tempdir().unwrap();
    // The layout of the bucket, and one record in two documents.
    for (index, part) in [&records[..2], &records[2..], &records[..1]].into_iter().enumerate() {
        let below = folder.path().join(format!("aws/lambda/{index}"));
        fs::create_dir_all(&below).unwrap();
        keep(&below, "document", &table.document(part).body);
    }
    let before = table.items();
    let dry = redrive(&table, folder.path(), "--dry-run", 0, [3, 6, 5, 1]);
    assert_eq!((&dry["DryRun"], table.items()), (&json!(true), before.clone()));
    redrive(&table, folder.path(), "", 0, [3, 6, 5, 1]);
    let after = table.items();
    assert_eq!(after.len(), before.len() + 5);
    let (v3, latest) = (&after["E v3"], &after["E v0"]);
    assert_eq!(
        (number(&v3["N"]), &v3["RequestId"]),
        ("21e0".to_owned(), &latest["RequestId"])
    );
    redrive(&table, folder.path(), "", 0, [3, 6, 0, 6]);
    assert_eq!(table.items(), after);
    let file = folder.path().join("aws/lambda/0/document");
    redrive(&table, &file, &file.display().to_string(), 0, [2, 4, 0, 4]);
}

#[test]
fn a_pruned_version_is_not_stored_again() {
    let table = new_table();
    table.write_versions("E", 4);
    let folder = tempfile::tempdir().unwrap();
    keep(folder.path(), "document", &table.document(&table.records()).body);
    redrive(&table, folder.path(), "", 0, [1, 4, 4, 0]);
    table.check("pin E 1\nprune E --keep 1 --grace 1h");
    // A version that is marked or pinned is stored still.
    redrive(&table, folder.path(), "", 0, [1, 4, 0, 4]);
    table.delete("E", "v2");
    table.delete("E", "v3");
    for more in ["--dry-run", ""] {
        let summary = redrive(&table, folder.path(), more, 0, [1, 4, 0, 2]);
        assert_eq!(summary["Pruned"], 2);
    }
    let keys: Vec<_> = table.items_of("E").into_keys().collect();
    assert_eq!(keys, ["floor", "v0", "v1", "v4"]);
    table.check("audit E --lag 0");
}

#[test]
fn failed_records_are_listed_and_all_others_are_stored() {
    let table = new_table();
    table.write_versions("E", 3);
    table.write_versions("secret", 1);
    let records = table.records();
    let taken = json!({"PK": {"S": "E"}, "SK": {"S": "v2"}, "A": {"S": "something else"}});
    table.put(taken.clone());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let mut body = with_open_payload(table.document(&records).body);
    let failed = body["payload"]["Records"].as_array_mut().unwrap();
    failed[3]["dynamodb"]["NewImage"]["N"] = json!({"N": {"secret": "value"}});
    let number = failed[3]["dynamodb"]["SequenceNumber"].clone();
    failed.extend([json!("no record"), json!({"eventName": "REMOVE", "dynamodb": {}})]);
    keep(path, "a", &body);
    // Records of other tables: by the record, by the document, and only their position.
    let second = format!("{}2", table.name);
    let other = |name: &str| table.stream_arn.replace(&table.name, name);
    let mut body = with_open_payload(table.document(&records[..2]).body);
    body["payload"]["Records"][1]["eventSourceARN"] = json!(other(&second));
    keep(path, "b", &body);
    let mut body = with_open_payload(table.document(&records[..1]).body);
    let record = body["payload"]["Records"][0].as_object_mut().unwrap();
    record.remove("eventSourceARN");
    body["DDBStreamBatchInfo"]["streamArn"] = json!(other("Other"));
    keep(path, "d", &body);
    keep(path, "e", &without_payload(body));
    keep(path, "f", &json!({"no": "document"}));
    fs::write(path.join("g"), [0xff]).unwrap();
    for (more, recorded, already) in [("--dry-run", 2, 1), ("", 2, 1), ("", 0, 3)] {
        let summary = redrive(&table, path, more, 4, [4, 10, recorded, already]);
        let names = [
            "Skipped",
            "Conflict",
            "Malformed",
            "OtherTable",
            "NotDocuments",
            "Lost",
            "Failed",
        ];
        assert_eq!(members(&summary, &names), json!([1, 1, 2, 3, 2, 0, 0]), "{summary}");
        let source = |name: &str| path.join(name).display().to_string();
        let conflict = members(&summary["Conflicts"][0], &["ID", "Version", "Source"]);
        assert_eq!(conflict, json!(["E", 2, source("a")]));
        let reason = "the record is malformed: the attribute N cannot be read: it is of an unknown type, its value is not \
                      of that type, or it is not valid base64";
        let named = json!({"Source": source("a"), "SequenceNumber": number, "Reason": reason});
        assert_eq!(summary["MalformedRecords"][0], named);
        let others = summary["OtherTables"].as_array().unwrap().iter();
        let mut others: Vec<_> = others.map(|other| members(other, &["Source", "Table"])).collect();
        others.sort_by_key(Value::to_string);
        let named = [("b", &*second), ("d", "Other"), ("e", "Other")];
        assert_eq!(others, named.map(|(name, table)| json!([source(name), table])));
        assert!(!summary.to_string().contains("value\""), "{summary}");
        assert_eq!(table.items()["E v2"], taken);
    }
    let keys: Vec<_> = table.items().into_keys().collect();
    assert_eq!(keys, ["E v0", "E v1", "E v2", "E v3", "secret v0"]);
    // A table that was restored with another name.
    redrive(&table, &path.join("d"), "--from-table Other", 0, [1, 1, 0, 1]);
}

#[test]
fn without_payload_records_are_fetched_from_the_stream() {
    let table = new_table();
    table.write_versions("E", 4);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("document");
    let check = |body: Value, code: i32, counts: [u64; 4]| {
        fs::write(&file, body.to_string()).unwrap();
        redrive(&table, &file, "", code, counts)
    };
    // The stream also has records of version items, between those of the batch.
    check(table.document(&table.records()[..1]).body, 0, [1, 1, 1, 0]);
    table.write_versions("E", 1);
    let records = table.records();
    let pointer = |records: &[_]| without_payload(table.document(records).body);
    check(pointer(&records[2..3]), 0, [1, 1, 1, 0]);
    assert_eq!(table.versions(), 2);
    check(pointer(&records), 0, [1, 5, 3, 2]);
    check(pointer(&records), 0, [1, 5, 0, 5]);
    if table
        .endpoint
        .differs("what a stream does not have", &["unknown-shard"])
    {
        return;
    }
    // The sequence numbers begin before the first record of the stream.
    let (mut body, before) = (pointer(&records[..2]), "0".repeat(21));
    body["DDBStreamBatchInfo"]["startSequenceNumber"] = json!(before);
    body["DDBStreamBatchInfo"]["batchSize"] = json!(5);
    let summary = check(body, 4, [1, 5, 0, 2]);
    let lost = &summary["LostRecords"][0];
    assert_eq!(members(lost, &["From", "Through", "Records"]), json!([before, null, 3]));
    // The oldest record is that of the table's settings.
    assert!(lost["Before"].as_str().unwrap() < records[0].sequence_number().as_str());
}

#[test]
fn a_missing_source() {
    let table = new_table();
    let folder = tempfile::tempdir().unwrap();
    redrive(&table, folder.path(), "", 0, [0; 4]);
    // Nothing listens at the last address.
    table.check(
        "redrive /no/such/folder => {} => 3 error: /no/such/folder: No such file or directory (os error 2)
         redrive => 2
         redrive s3://bucket --s3-endpoint-url http://127.0.0.1:1 => {} => 5 error: ListObjectsV2 could not be sent…",
    );
}
