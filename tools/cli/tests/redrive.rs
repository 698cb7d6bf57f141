//! `vzero admin redrive` from files.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the message")]

use std::{fs, path::Path};

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
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

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

const COUNTS: [&str; 5] = ["Documents", "Records", "Recorded", "AlreadyRecorded", "Conflict"];

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
    let redrive = ["redrive", text(folder.path())];
    let before = table.items();
    let dry = table.json(&[&redrive[..], &["--dry-run"]].concat(), 0);
    assert_eq!(members(&dry, &COUNTS), json!([3, 6, 5, 1, 0]));
    assert_eq!(dry["DryRun"], true);
    assert_eq!(table.items(), before);

    let first = table.json(&redrive, 0);
    assert_eq!(members(&first, &COUNTS), json!([3, 6, 5, 1, 0]));
    let after = table.items();
    assert_eq!(after.len(), before.len() + 5);
    let v3 = &after["E v3"];
    let expected = json!({"N": "2.1"});
    assert_eq!(
        (number(&v3["N"]), &v3["RequestId"]),
        (number(&expected), &after["E v0"]["RequestId"])
    );

    let second = table.json(&redrive, 0);
    assert_eq!(members(&second, &COUNTS), json!([3, 6, 0, 6, 0]));
    assert_eq!(table.items(), after);
    let file = folder.path().join("aws/lambda/0/document");
    let one = table.json(&["redrive", text(&file), text(&file)], 0);
    assert_eq!(members(&one, &COUNTS), json!([2, 4, 0, 4, 0]));
}

#[test]
fn a_pruned_version_is_not_stored_again() {
    const COUNTS: [&str; 6] = [
        "Documents",
        "Records",
        "Recorded",
        "AlreadyRecorded",
        "Pruned",
        "Failed",
    ];
    let table = new_table();
    table.write_versions("E", 4);
    let records = table.records();
    let folder = tempfile::tempdir().unwrap();
    keep(folder.path(), "document", &table.document(&records).body);
    let redrive = ["redrive", text(folder.path())];
    assert_eq!(members(&table.json(&redrive, 0), &COUNTS), json!([1, 4, 4, 0, 0, 0]));
    table.json(&["pin", "E", "1"], 0);
    table.json(&["prune", "E", "--keep", "1", "--grace", "1h"], 0);
    // A version that is marked or pinned is stored still.
    assert_eq!(members(&table.json(&redrive, 0), &COUNTS), json!([1, 4, 0, 4, 0, 0]));
    for key in ["v2", "v3"] {
        table.delete("E", key);
    }
    let dry = table.json(&[&redrive[..], &["--dry-run"]].concat(), 0);
    assert_eq!(members(&dry, &COUNTS), json!([1, 4, 0, 2, 2, 0]));
    assert_eq!(members(&table.json(&redrive, 0), &COUNTS), json!([1, 4, 0, 2, 2, 0]));
    let keys: Vec<_> = table.items_of("E").into_keys().collect();
    assert_eq!(keys, ["floor", "v0", "v1", "v4"]);
    assert_eq!(table.run(&["audit", "E", "--lag", "0"]).code, 0);
}

#[test]
fn documents_of_kinesis() {
    let table = new_table();
    table.write_versions("E", 3);
    let mut body = with_open_payload(table.document(&table.records()).body);
    let batch = body.as_object_mut().unwrap().remove("DDBStreamBatchInfo").unwrap();
    let arn = batch["streamArn"].as_str().unwrap().to_owned();
    // Of the same account and Region.
    let kinesis = arn
        .replacen("dynamodb", "kinesis", 1)
        .replacen(":table/", ":stream/", 1);
    body["KinesisBatchInfo"] = batch;
    for (index, name) in [&*table.name, &*table.name, "Other"].into_iter().enumerate() {
        let record = &mut body["payload"]["Records"][index];
        record["tableName"] = json!(name);
        let data = BASE64.encode(record.to_string());
        *record = json!({
            "kinesis": {"data": data, "sequenceNumber": index.to_string()},
            "eventSourceARN": kinesis,
        });
    }
    let folder = tempfile::tempdir().unwrap();
    keep(folder.path(), "document", &body);
    let answer = table.json(&["redrive", text(folder.path())], 4);
    assert_eq!(members(&answer, &COUNTS), json!([1, 3, 2, 0, 0]));
    assert_eq!(answer["OtherTables"][0]["Table"], "Other", "{answer}");
    assert_eq!(table.versions(), 2);
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
    let mut body = with_open_payload(table.document(&records).body);
    let malformed = &mut body["payload"]["Records"][3]["dynamodb"];
    malformed["NewImage"]["N"] = json!({"N": {"secret": "value"}});
    let number = malformed["SequenceNumber"].clone();
    body["payload"]["Records"]
        .as_array_mut()
        .unwrap()
        .extend([json!("no record"), json!({"eventName": "REMOVE", "dynamodb": {}})]);
    keep(folder.path(), "a", &body);
    // Records of other tables: by the record, by the document, and only their position.
    let second = format!("{}2", table.name);
    let other = |name: &str| table.stream_arn.replace(&table.name, name);
    let mut body = with_open_payload(table.document(&records[..2]).body);
    body["payload"]["Records"][1]["eventSourceARN"] = json!(other(&second));
    keep(folder.path(), "b", &body);
    let mut body = with_open_payload(table.document(&records[..1]).body);
    body["payload"]["Records"][0]
        .as_object_mut()
        .unwrap()
        .remove("eventSourceARN");
    body["DDBStreamBatchInfo"]["streamArn"] = json!(other("Other"));
    keep(folder.path(), "d", &body);
    body.as_object_mut().unwrap().remove("payload");
    keep(folder.path(), "e", &body);
    keep(folder.path(), "f", &json!({"no": "document"}));
    fs::write(folder.path().join("g"), [0xff]).unwrap();

    let check = |recorded: u64, already: u64, dry: &[&str]| {
        let path = text(folder.path());
        let answer = table.json(&[&["redrive", path][..], dry].concat(), 4);
        let names = [
            "Documents",
            "Records",
            "Recorded",
            "AlreadyRecorded",
            "Skipped",
            "Conflict",
            "Malformed",
        ];
        assert_eq!(
            members(&answer, &names),
            json!([4, 10, recorded, already, 1, 1, 2]),
            "{answer}"
        );
        assert_eq!(
            members(&answer, &["OtherTable", "NotDocuments", "Lost", "Failed"]),
            json!([3, 2, 0, 0])
        );
        let source = |name: &str| format!("{path}/{name}");
        let conflict = &answer["Conflicts"][0];
        assert_eq!(
            members(conflict, &["ID", "Version", "Source"]),
            json!(["E", 2, source("a")])
        );
        let reason = "the record is malformed: the attribute N cannot be read: it is of an unknown type, its value is not \
                      of that type, or it is not valid base64";
        let named = json!({"Source": source("a"), "SequenceNumber": number, "Reason": reason});
        assert_eq!(answer["MalformedRecords"][0], named);
        let others = answer["OtherTables"].as_array().unwrap().iter();
        let mut others: Vec<_> = others.map(|other| members(other, &["Source", "Table"])).collect();
        others.sort_by_key(Value::to_string);
        let named = [("b", &*second), ("d", "Other"), ("e", "Other")];
        assert_eq!(others, named.map(|(name, table)| json!([source(name), table])));
        assert!(!answer.to_string().contains("value\""), "{answer}");
        assert_eq!(table.items()["E v2"], taken);
    };
    check(2, 1, &["--dry-run"]);
    check(2, 1, &[]);
    check(0, 3, &[]);
    let keys: Vec<_> = table.items().into_keys().collect();
    assert_eq!(keys, ["E v0", "E v1", "E v2", "E v3", "secret v0"]);
    // A table that was restored with another name.
    let answer = table.json(&["redrive", text(&folder.path().join("d")), "--from-table", "Other"], 0);
    assert_eq!(members(&answer, &COUNTS), json!([1, 1, 0, 1, 0]));
}

#[test]
fn without_payload_records_are_fetched_from_the_stream() {
    let table = new_table();
    table.write_versions("E", 4);
    let records = table.records();
    let folder = tempfile::tempdir().unwrap();
    let pointer = |records: &[_]| {
        let mut body = table.document(records).body;
        body.as_object_mut().unwrap().remove("payload");
        body
    };
    // The stream also has records of version items, between those of the batch.
    keep(folder.path(), "first", &table.document(&records[..1]).body);
    table.json(&["redrive", text(folder.path())], 0);
    table.write_versions("E", 1);
    let records = [records, table.records().split_off(4)].concat();
    let check = |body: &Value, code: i32, expected: Value| {
        let folder = tempfile::tempdir().unwrap();
        keep(folder.path(), "document", body);
        let answer = table.json(&["redrive", text(folder.path())], code);
        let names = ["Records", "Recorded", "AlreadyRecorded", "Skipped", "Lost"];
        assert_eq!(members(&answer, &names), expected, "{answer}");
        answer["LostRecords"].clone()
    };
    check(&pointer(&records[2..3]), 0, json!([1, 1, 0, 0, 0]));
    assert_eq!(table.versions(), 2);
    check(&pointer(&records), 0, json!([5, 3, 2, 0, 0]));
    check(&pointer(&records), 0, json!([5, 0, 5, 0, 0]));

    // The sequence numbers begin before the first record of the stream.
    if table
        .endpoint
        .differs("what a stream does not have", &["unknown-shard"])
    {
        return;
    }
    let mut body = pointer(&records[..2]);
    let before = "0".repeat(21);
    body["DDBStreamBatchInfo"]["startSequenceNumber"] = json!(before);
    body["DDBStreamBatchInfo"]["batchSize"] = json!(5);
    let lost = check(&body, 4, json!([5, 0, 2, 0, 3]));
    assert_eq!(
        members(&lost[0], &["From", "Through", "Records"]),
        json!([before, null, 3])
    );
    // The oldest record is that of the table's settings.
    assert!(lost[0]["Before"].as_str().unwrap() < records[0].sequence_number().as_str());
}

#[test]
fn a_missing_source() {
    let table = new_table();
    let ran = table.run(&["redrive", "/no/such/folder"]);
    assert_eq!(ran.code, 3);
    assert_eq!(
        ran.stderr,
        "error: /no/such/folder: No such file or directory (os error 2)\n"
    );
    assert_eq!(table.run(&["redrive"]).code, 2);
    let folder = tempfile::tempdir().unwrap();
    let answer = table.json(&["redrive", text(folder.path())], 0);
    assert_eq!(members(&answer, &COUNTS), json!([0, 0, 0, 0, 0]));
    // Nothing listens at this address.
    let elsewhere = ["redrive", "s3://bucket", "--s3-endpoint-url", "http://127.0.0.1:1"];
    assert_eq!(table.run(&elsewhere).code, 5);
}
