//! `vzero --attached FILE admin redrive`.

use std::{fs, path::Path};

use serde_json::{Value, json};
use testkit::{
    attached::{Orders, state},
    command::members,
};

use crate::orders;

const COUNTS: [&str; 4] = ["Documents", "Recorded", "AlreadyRecorded", "Skipped"];

fn keep(folder: &Path, name: &str, body: &Value) -> String {
    let path = folder.join(name);
    fs::write(&path, body.to_string()).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn a_record_that_is_redriven_after_later_ones_is_late() {
    let orders = orders();
    for text in ["a", "b", "c"] {
        orders.put(1, &state(text));
    }
    let records = orders.records();
    orders.deliver(&[records[0].clone(), records[2].clone()]);
    let folder = tempfile::tempdir().unwrap();
    let failed = keep(folder.path(), "document", &orders.document(&records[1..2]).body);
    let dry = orders.json(&format!("redrive {failed} --dry-run"), 0);
    assert_eq!(members(&dry, &COUNTS), json!([1, 1, 0, 0]));
    assert_eq!(orders.versions(1), ["v1 a", "v2 b Missed", "v3 c"]);
    let first = orders.json(&format!("redrive {failed}"), 0);
    assert_eq!(members(&first, &COUNTS), json!([1, 1, 0, 0]));
    assert_eq!(orders.versions(1), ["v1 a", "v2 b Missed", "v3 c", "v4 b Late"]);
    let second = orders.json(&format!("redrive {failed}"), 0);
    assert_eq!(members(&second, &COUNTS), json!([1, 0, 1, 0]));
    assert_eq!(orders.versions(1).len(), 4);
    orders.put(1, &state("d"));
    orders.deliver(&orders.records()[3..]);
    // The order never was in state b after state c.
    let lines = orders.run(&["history", &Orders::key(1), "--changes"]).stdout;
    let said: Vec<_> = lines.lines().map(|line| line.splitn(3, "  ").nth(2).unwrap()).collect();
    let expected = [
        "(previous version not available)",
        "[Late, after 1]  (not compared: its record arrived late)",
        "state: b → c",
        "[Missed]  state: a → b",
        "+customer: c, +no: 1, +state: a",
    ];
    assert_eq!(said, expected, "{lines}");
}

#[test]
fn a_deletion_is_no_attribute_of_the_item() {
    let orders = orders();
    let deleted = json!({"state": {"S": "a"}, "Deleted": {"BOOL": true}});
    orders.put(1, &state("a"));
    orders.put(1, &deleted);
    orders.delete(1);
    orders.put(1, &deleted);
    orders.deliver_all();
    let lines = orders.run(&["history", &Orders::key(1), "--changes", "--oldest-first"]);
    let said: Vec<_> = lines
        .stdout
        .lines()
        .map(|line| line.splitn(3, "  ").nth(2).unwrap())
        .collect();
    let expected = ["+customer: c", "+Deleted: true", "+(deleted): true", "-(deleted)"];
    assert_eq!(
        said.iter()
            .map(|said| said.split(", ").next().unwrap())
            .collect::<Vec<_>>(),
        expected,
        "{lines:?}"
    );
}

#[test]
fn records_without_a_payload_are_read_from_the_stream() {
    let filter = json!({"Filter": {"state": [{"anything-but": "hidden"}]}});
    let orders = Orders::with(env!("CARGO_BIN_EXE_vzero"), &filter);
    orders.put(1, &state("a"));
    orders.put(1, &state("b"));
    orders.put(2, &state("hidden"));
    orders.put(1, &json!({"state": {"S": "b"}, "seen": {"N": "1"}}));
    orders.delete(1);
    let records = orders.records();
    assert_eq!(records.len(), 4);
    let mut body = orders.document(&records[1..]).body;
    body.as_object_mut().unwrap().remove("payload");
    let folder = tempfile::tempdir().unwrap();
    let failed = keep(folder.path(), "document", &body);
    let run = orders.json(&format!("redrive {failed}"), 0);
    // The change of the ignored attribute makes no version.
    assert_eq!(members(&run, &COUNTS), json!([1, 2, 0, 1]));
    // The old image of the first record is known.
    assert_eq!(orders.versions(1), ["v1 a Baseline", "v2 b", "v3 - Deleted"]);
    assert!(orders.stored(2).is_empty());
    let stored = orders.stored(1);
    assert!(
        stored.iter().all(|version| version["RecordedAt"]["S"].is_string()),
        "{stored:?}"
    );
}

#[test]
fn documents_are_redriven_in_the_order_of_their_names() {
    let orders = orders();
    for number in 0..12 {
        orders.put(1, &state(&format!("{number:02}")));
    }
    let records = orders.records();
    let folder = tempfile::tempdir().unwrap();
    for (number, record) in records.iter().enumerate() {
        let body = orders.document(std::slice::from_ref(record)).body;
        keep(folder.path(), &format!("document-{number:02}"), &body);
    }
    let path = folder.path().to_str().unwrap();
    let dry = orders.json(&format!("redrive {path} --dry-run"), 0);
    assert_eq!(dry["Documents"], 12);
    let run = orders.json(&format!("redrive {path}"), 0);
    assert_eq!(members(&run, &COUNTS), json!([12, 12, 0, 0]));
    let expected: Vec<_> = (0..12).map(|number| format!("v{} {number:02}", number + 1)).collect();
    assert_eq!(orders.versions(1), expected);
}

#[test]
fn a_quarantined_record_is_listed_by_its_key() {
    let orders = orders();
    orders.put(1, &state("a"));
    let mut broken = orders.records()[0].json().clone();
    broken["dynamodb"]["NewImage"]["state"] = json!({"X": "y"});
    let number = orders.records()[0].sequence_number().clone();
    let broken = testkit::table::Record::new(number, std::time::Duration::ZERO, broken);
    orders.deliver(&[broken]);
    let listed = orders.json(&["quarantine", &Orders::key(1)], 0);
    assert_eq!(listed["ID"], orders.entity(1).as_str());
    let source = format!("quarantine:{}", Orders::key(1));
    let dry = orders.lines(&format!("redrive {source} --dry-run"), 4);
    assert_eq!(dry[0]["Documents"], 1, "{dry:?}");
    orders.lines(&format!("redrive {source} --drop-malformed"), 4);
    assert!(orders.stored(1).is_empty());
}
