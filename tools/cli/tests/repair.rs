//! `vzero admin repair`.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the message")]

use std::{collections::BTreeMap, fs};

use serde_json::{Value, json};
use testkit::table::{Table, number, with_open_payload};

fn with_digits(digits: u8) -> Table {
    Table::with_digits(env!("CARGO_BIN_EXE_vzero"), digits)
}

fn new_table() -> Table {
    Table::new(env!("CARGO_BIN_EXE_vzero"))
}

/// Repairs, and compares the plan and the nonzero counts: `Record Version=5 Source=v0; … => Entities=1 Recorded=1`.
fn repaired(table: &Table, arguments: &str, code: i32, expected: &str) {
    let shown = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let member = |(name, value): (&String, &Value)| match &**name {
        "ID" | "Step" => String::new(),
        _ => format!(" {name}={}", shown(value)),
    };
    let mut lines = table.lines(&format!("repair --lag 0 {arguments}"), code);
    let mut summary = lines.pop().unwrap();
    assert_eq!(summary["DryRun"], arguments.contains("--dry-run"), "{summary}");
    let summary = summary.as_object_mut().unwrap();
    summary.retain(|_, count| count.is_u64() && *count != 0);
    let line = |line: &Value| shown(&line["Step"]) + &line.as_object().unwrap().iter().map(member).collect::<String>();
    let plan = lines.iter().map(line).collect::<Vec<_>>().join("; ");
    let counts: String = summary.iter().map(member).collect();
    assert_eq!(format!("{plan} =>{counts}"), expected, "{arguments}");
}

fn audit(table: &Table, code: i32) {
    table.lines("audit --all --lag 0", code);
}

/// Puts a version and stores it in history. Returns its number.
fn put(table: &Table, assignment: &str) -> Value {
    table.json(&format!("put --mode inline E --set {assignment}"), 0)["Version"].clone()
}

fn item(key: &str, state: &str) -> Value {
    json!({"PK": {"S": "E"}, "SK": {"S": key}, "State": {"S": state}})
}

fn with(mut item: Value, name: &str, value: Value) -> Value {
    item[name] = value;
    item
}

fn counted(item: Value, latest: u64) -> Value {
    with(item, "Latest", json!({"N": latest.to_string()}))
}

/// Returns the items without what a latest item that is restored does not have.
fn without_requests(mut items: BTreeMap<String, Value>) -> BTreeMap<String, Value> {
    let latest = items.get_mut("E v0").unwrap().as_object_mut().unwrap();
    latest.retain(|name, _| !["RecentRequests", "RequestsSince", "RequestsDropped", "V0Id"].contains(&name.as_str()));
    items
}

#[test]
fn gaps_are_filled_from_the_latest_item_from_documents_and_from_the_stream() {
    let table = new_table();
    table.write_versions("E", 5);
    table.write_versions("whole", 1);
    let records = table.records();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let keep = |name: &str, records: &[_]| {
        fs::write(folder.path().join(name), table.document(records).body.to_string()).unwrap();
    };
    keep("first", &[records[0].clone(), records[5].clone()]);
    table.json(&["redrive", path], 0);
    keep("second", &records[1..2]);
    let before = table.items();
    assert_eq!(before.len(), 4);

    // Without a terminal it cannot ask, so it needs --yes.
    table.check("repair E --lag 0 => 2");
    let nowhere = "Why=it is in none of the sources";
    let plan = format!("Record Version=5 Source=v0; None From=2 To=4 {nowhere} => Entities=1");
    repaired(&table, "E --dry-run", 4, &format!("{plan} Left=1"));
    assert_eq!(table.items(), before);
    repaired(&table, "E --yes", 4, &format!("{plan} Recorded=1 Left=1"));
    let plan =
        format!("Record Version=2 Source={path}/second; None From=3 To=4 {nowhere} => Entities=1 Recorded=1 Left=1");
    repaired(&table, &format!("--all --from {path} --yes"), 4, &plan);
    audit(&table, 4);
    let plan = "Record Version=3 Source=the stream; Record Version=4 Source=the stream => Entities=1 Recorded=2";
    repaired(&table, &format!("--all --from {path} --stream --yes"), 0, plan);
    audit(&table, 0);
    // The versions are those that stream-fn stores.
    let after = table.items();
    for (version, record) in (1..).zip(&records[..5]) {
        let (expected, item) = (&record.json()["dynamodb"]["NewImage"], &after[&format!("E v{version}")]);
        assert_eq!(
            (number(&item["N"]), &item["RequestId"]),
            (number(&expected["N"]), &expected["RequestId"])
        );
    }
    // A second repair has nothing to do, and a missing entity is not found.
    repaired(&table, "--all --stream --yes", 0, " =>");
    repaired(&table, "absent --yes", 3, " =>");
    assert_eq!(table.items(), after);
}

/// Only the stream record has the time of a version that another program wrote.
#[test]
fn versions_of_other_programs_from_the_stream_are_those_that_stream_fn_stores() {
    let table = new_table();
    let latest = |n: u64| counted(with(item("v0", "OK"), "A", json!({"N": n.to_string()})), n);
    (1..=3).for_each(|n| table.put(latest(n)));
    let records = table.records();
    // The third version again, without an increment: stream-fn keeps the first record.
    table.put(with(latest(3), "X", json!({"N": "1"})));
    let steps = [3, 1, 2].map(|version| format!("Record Version={version} Source=the stream"));
    let plan = steps.join("; ") + " => Entities=1 Recorded=3";
    repaired(&table, "E --stream --yes", 0, &plan);
    let repaired = table.items();
    for version in 1..=3 {
        let item = &repaired[&format!("E v{version}")];
        assert!(item["RecordedAt"]["S"].is_string(), "{item}");
        assert_eq!((&item["RecordedBy"]["S"], item.get("X")), (&json!("stream"), None));
        table.delete("E", &format!("v{version}"));
    }
    // stream-fn's code stores the same items.
    let document = tempfile::NamedTempFile::new().unwrap();
    fs::write(document.path(), table.document(&records).body.to_string()).unwrap();
    table.json(&format!("redrive {}", document.path().display()), 0);
    assert_eq!(table.items(), repaired);
}

#[test]
fn a_counter_that_was_reset_continues_after_the_highest_version() {
    let table = with_digits(3);
    for assignment in ["A=1", "A=2", "A=3", "A=4"] {
        put(&table, assignment);
    }
    let before = table.items();
    let number = |latest: Value, step: &str| {
        table.put(latest);
        audit(&table, 4);
        repaired(&table, "E --yes", 0, &format!("{step} => Entities=1 Raised=1"));
        audit(&table, 0);
        table.items()
    };
    let latest = || table.items()["E v0"].clone();
    // The latest item has the state of the highest version, so no version is created from it.
    let same = number(counted(latest(), 1), "Raise From=1 To=4");
    assert_eq!(without_requests(same), without_requests(before.clone()));
    // Attributes that differ from the version become the next version.
    let changed = number(with(latest(), "A", json!({"S": "manual"})), "Raise From=4 To=5");
    assert_eq!(changed["E v005"]["A"], json!({"S": "manual"}));
    // Another program counts from 1 again.
    let items = number(counted(item("v0", "new life"), 1), "Raise From=1 To=6");
    assert_eq!(items["E v006"]["State"], json!({"S": "new life"}));
    assert!((1..=4).all(|number| items[&format!("E v00{number}")] == before[&format!("E v00{number}")]));
    // The record of the raised latest item results in the same version item.
    let document = tempfile::NamedTempFile::new().unwrap();
    let raised = table.records().split_off(9);
    fs::write(document.path(), table.document(&raised).body.to_string()).unwrap();
    let redriven = table.json(&format!("redrive {}", document.path().display()), 0);
    assert_eq!(
        (&redriven["Records"], &redriven["AlreadyRecorded"]),
        (&json!(1), &json!(1))
    );
    assert_eq!(put(&table, "A=6"), 7);
    audit(&table, 0);
}

#[test]
fn a_missing_latest_item_is_restored_only_with_revive() {
    let table = new_table();
    put(&table, "A=1");
    put(&table, "A=2");
    let before = table.items();
    table.delete("E", "v0");
    let gone = table.items();
    let left =
        "None Finding=Orphan From=1 To=2 Why=there is no latest item; --revive creates it from the highest version";
    repaired(&table, "--all --yes", 4, &format!("{left} => Entities=1 Left=1"));
    assert_eq!(table.items(), gone);
    repaired(
        &table,
        "--all --revive --yes",
        0,
        "Revive Version=2 => Entities=1 Revived=1",
    );
    // It is unchanged, except for its recent requests, which are complete only from now on.
    assert_eq!(without_requests(table.items()), without_requests(before));
    let revived = &table.items()["E v0"];
    assert_eq!(revived["RecentRequests"]["M"].as_object().unwrap().len(), 2);
    assert!(revived["RequestsSince"].is_object());
    audit(&table, 0);
    assert_eq!(put(&table, "A=3"), 3);
}

#[test]
fn versions_that_differ_between_sources_are_not_used() {
    let table = new_table();
    table.write_versions("E", 2);
    let records = table.records();
    let folder = tempfile::tempdir().unwrap();
    let mut body = with_open_payload(table.document(&records[..1]).body);
    fs::write(folder.path().join("a"), body.to_string()).unwrap();
    body["payload"]["Records"][0]["dynamodb"]["NewImage"]["N"] = json!({"N": "7"});
    fs::write(folder.path().join("b"), body.to_string()).unwrap();
    // A document of another table is not used.
    let other = body
        .to_string()
        .replace(&format!("table/{}/", table.name), "table/Other/");
    fs::write(folder.path().join("c"), other.replace("\"7\"", "\"8\"")).unwrap();
    let path = folder.path().display();
    let doubtful = "None From=1 To=1 Why=the sources contain different items";
    let plan = format!("Record Version=2 Source=v0; {doubtful} => Entities=1 Recorded=1 Left=1");
    repaired(&table, &format!("E --from {path} --yes"), 4, &plan);
    assert!(!table.items().contains_key("E v1"));
    table.lines(&format!("repair --lag 0 E --from {path}/a --from {path}/c --yes"), 0);
    let expected = &records[0].json()["dynamodb"]["NewImage"];
    assert_eq!(number(&table.items()["E v1"]["N"]), number(&expected["N"]));
}

/// Another program loaded the versions, in the width `v01`. The latest item gets the number of the version with the same state, or
/// the next number.
#[test]
fn a_latest_item_without_a_counter_is_adopted() {
    let is_about_one_table = testkit::endpoint::is_about_one_table("a_latest_item_without_a_counter_is_adopted");
    for (key, state, is_counted, version) in [
        ("v0", "NORMAL", false, 3),
        ("v0", "OK", false, 4),
        ("v00", "NORMAL", false, 3),
        ("v00", "OK", false, 4),
        // It keeps its number, unless that is the one of another state.
        ("v00", "NORMAL", true, 3),
        ("v00", "OK", true, 4),
    ] {
        if is_counted && is_about_one_table {
            continue;
        }
        let table = with_digits(2);
        for (key, state) in [("v01", "NORMAL"), ("v02", "WARNING1"), ("v03", "NORMAL")] {
            table.put(item(key, state));
        }
        let latest = item(key, state);
        table.put(if is_counted { counted(latest, 3) } else { latest });
        let before = table.items();
        let rejected = table.run("put E --set State=NEW");
        assert!(
            rejected.code == 4 && rejected.stderr.contains("vzero admin repair"),
            "{rejected:?}"
        );
        assert_eq!(table.lines("history E", 0).len(), 3);
        assert_eq!(table.items(), before);
        let step = if key == "v0" {
            "Adopt".to_owned()
        } else {
            format!("Move From={key}")
        };
        repaired(
            &table,
            "--all --yes",
            0,
            &format!("{step} Version={version} => Entities=1 Adopted=1"),
        );
        audit(&table, 0);
        // No version has changed.
        let items = table.items();
        assert!(
            ["E v01", "E v02", "E v03"]
                .iter()
                .all(|name| items[*name] == before[*name])
        );
        assert!(!items.contains_key("E v00"));
        let read = table.json("get E", 0);
        assert_eq!(
            (&read["Version"], &read["Attributes"]["State"]),
            (&json!(version), &json!(state))
        );
        assert_eq!(put(&table, "State=NEW"), version + 1);
        audit(&table, 0);
    }
    if !is_about_one_table {
        // Without versions.
        let table = with_digits(2);
        table.put(item("v00", "OK"));
        repaired(
            &table,
            "--all --yes",
            0,
            "Move From=v00 Version=1 => Entities=1 Adopted=1",
        );
        assert_eq!(table.items()["E v01"]["State"], json!({"S": "OK"}));
    }
}

/// Versions up to the floor existed, although none of them exists any more.
#[test]
fn a_counter_never_continues_below_the_floor() {
    let table = new_table();
    let pinned = with(item("v3", "old"), "Pinned", json!({"BOOL": true}));
    let first = [item("v1", "first"), item("v2", "new"), counted(item("v0", "new"), 2)];
    // The exit codes of `prune E` and `prune --all`.
    for (items, expected, pruned) in [
        (&[][..], Value::Null, [3, 0]),
        (&[pinned], Value::Null, [3, 0]),
        (&[item("v0", "new")], json!("new"), [4, 4]),
        // An earlier release counted from 1.
        (&first, json!("new"), [4, 4]),
    ] {
        table.put(json!({"PK": {"S": "E"}, "SK": {"S": "floor"}, "Floor": {"N": "10"}}));
        for item in items {
            table.put(item.clone());
        }
        let before = table.items();
        let found = table.lines("audit E --lag 0", 4);
        assert!(
            found.contains(&json!({"ID": "E", "Finding": "BelowFloor", "Floor": 10})),
            "{found:?}"
        );
        assert!(!format!("{found:?}").contains("Unpruned"), "{found:?}");
        assert_eq!(table.lines("audit --all --lag 0", 4)[0], found[0]);
        let is_counted = items.len() == first.len();
        // Nothing is removed, and without a repair nothing is written.
        for (scope, code) in ["E", "--all"].into_iter().zip(pruned) {
            let run = table.run(&format!("prune {scope} --keep 1"));
            assert_eq!(run.code, code, "{run:?}");
            let said = run.stdout.clone() + &run.stderr;
            assert_eq!(said.contains("Latest is below the floor"), is_counted, "{run:?}");
        }
        if !is_counted {
            table.check("put E --set A=1 => 4\nput E --set A=1 --expect 0 => 4");
        }
        assert_eq!(table.items(), before);
        // Without a latest item, the state of the entity is lost.
        let tombstone = if before.contains_key("E v0") {
            ""
        } else {
            " Tombstone=true"
        };
        let recount = format!("Recount Version=11{tombstone} => Entities=1 Raised=1");
        repaired(&table, "E --yes", 0, &recount);
        let after = table.items();
        let others = |key: &&String| !["E v0", "E floor"].contains(&key.as_str());
        assert!(before.keys().filter(others).all(|key| after[key] == before[key]));
        let v11 = &after["E v11"];
        assert_eq!(
            (&v11["State"]["S"], v11.get("Deleted").is_some()),
            (&expected, expected.is_null())
        );
        // What was created below the floor is reported, and kept as long as the rule keeps it.
        let code = if is_counted { 4 } else { 0 };
        audit(&table, code);
        assert_eq!(table.json("prune E --keep 100", 0)["Marked"], 0);
        assert_eq!(put(&table, "State=x"), 12);
        table.lines("repair --lag 0 E --yes", code);
        table.run("purge E --yes --wait 0s");
        assert!(table.items().is_empty());
    }
}
