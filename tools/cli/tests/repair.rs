//! `vzero admin repair`.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the message")]

use std::{collections::BTreeMap, fs};

use serde_json::{Value, json};
use testkit::table::{Table, number, with_open_payload};

fn new_table() -> Table {
    Table::new(env!("CARGO_BIN_EXE_vzero"))
}

fn repair(table: &Table, arguments: &[&str], code: i32) -> (Vec<Value>, Value) {
    let mut lines = table.lines(&[&["repair", "--lag", "0"], arguments].concat(), code);
    let summary = lines.pop().unwrap();
    (lines, summary)
}

/// Returns the nonzero counts of a summary.
fn done(summary: &Value) -> Value {
    let counts = summary.as_object().unwrap().iter();
    counts
        .filter(|(_, count)| count.is_u64() && **count != 0)
        .map(|(name, count)| (name.clone(), count.clone()))
        .collect()
}

/// Executes a repair, and compares its plan and its nonzero counts.
fn repaired(table: &Table, arguments: &[&str], code: i32, steps: &[Value], counts: Value) {
    let (plan, summary) = repair(table, &[arguments, &["--yes"]].concat(), code);
    assert_eq!((&plan[..], done(&summary)), (steps, counts), "{arguments:?}");
}

fn audit(table: &Table, code: i32) {
    table.lines(&["audit", "--all", "--lag", "0"], code);
}

/// Puts a version and stores it in history. Returns its number.
fn put(table: &Table, assignment: &str) -> Value {
    table.lines(&["put", "--mode", "inline", "E", "--set", assignment], 0)[0]["Version"].clone()
}

fn item(id: &str, key: &str, state: &str) -> Value {
    json!({"PK": {"S": id}, "SK": {"S": key}, "State": {"S": state}})
}

fn with(mut item: Value, name: &str, value: Value) -> Value {
    item[name] = value;
    item
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
    assert_eq!(table.run(&["repair", "E", "--lag", "0"]).code, 2);
    let step = |version: u64, source: &str| json!({"ID": "E", "Step": "Record", "Version": version, "Source": source});
    let none = |from: u64, to: u64| json!({"ID": "E", "Step": "None", "From": from, "To": to, "Why": "it is in none of the sources"});
    let (plan, summary) = repair(&table, &["E", "--dry-run"], 4);
    assert_eq!(plan, [step(5, "v0"), none(2, 4)]);
    assert_eq!(
        (done(&summary), &summary["DryRun"]),
        (json!({"Entities": 1, "Left": 1}), &json!(true))
    );
    assert_eq!(table.items(), before);

    let one = json!({"Entities": 1, "Recorded": 1, "Left": 1});
    repaired(&table, &["E"], 4, &[step(5, "v0"), none(2, 4)], one.clone());
    let plan = [step(2, &format!("{path}/second")), none(3, 4)];
    repaired(&table, &["--all", "--from", path], 4, &plan, one);
    audit(&table, 4);
    let plan = [step(3, "the stream"), step(4, "the stream")];
    let all = ["--all", "--from", path, "--stream"];
    repaired(&table, &all, 0, &plan, json!({"Entities": 1, "Recorded": 2}));
    audit(&table, 0);
    let after = table.items();
    assert!(before.iter().all(|(key, item)| after[key] == *item));
    for version in 1..=5 {
        let expected = &records[version - 1].json()["dynamodb"]["NewImage"];
        let found = &after[&format!("E v{version}")];
        assert_eq!(
            (number(&found["N"]), &found["RequestId"]),
            (number(&expected["N"]), &expected["RequestId"]),
            "{version}"
        );
    }
    // A second repair has nothing to do, and a missing entity is not found.
    repaired(&table, &["--all", "--stream"], 0, &[], json!({}));
    repaired(&table, &["nobody"], 3, &[], json!({}));
    assert_eq!(table.items(), after);
}

/// Only the stream record has the time of a version that another program wrote.
#[test]
fn versions_of_other_programs_from_the_stream_are_those_that_stream_fn_stores() {
    let table = new_table();
    let latest = |n: u64| json!({"PK": {"S": "E"}, "SK": {"S": "v0"}, "Latest": {"N": n.to_string()}, "A": {"N": n.to_string()}});
    (1..=3).for_each(|n| table.put(latest(n)));
    let records = table.records();
    // The third version again, without an increment: stream-fn keeps the first record.
    table.put(with(latest(3), "X", json!({"N": "1"})));
    let step = |version: u64| json!({"ID": "E", "Step": "Record", "Version": version, "Source": "the stream"});
    let counts = json!({"Entities": 1, "Recorded": 3});
    repaired(&table, &["E", "--stream"], 0, &[step(3), step(1), step(2)], counts);
    let repaired = table.items();
    for version in 1..=3 {
        let item = &repaired[&format!("E v{version}")];
        assert!(item["RecordedAt"]["S"].is_string(), "{item}");
        assert_eq!((&item["RecordedBy"]["S"], item.get("X")), (&json!("stream"), None));
        table.delete("E", &format!("v{version}"));
    }
    // stream-fn's code stores the same items.
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("all"), table.document(&records).body.to_string()).unwrap();
    table.json(&["redrive", folder.path().to_str().unwrap()], 0);
    assert_eq!(table.items(), repaired);
}

#[test]
fn a_counter_that_was_reset_continues_after_the_highest_version() {
    for digits in [1, 3] {
        let table = Table::with_digits(env!("CARGO_BIN_EXE_vzero"), digits);
        let key = |number: usize| format!("E v{number:0width$}", width = usize::from(digits));
        for n in ["A=1", "A=2", "A=3", "A=4"] {
            put(&table, n);
        }
        let before = table.items();
        let raise = |change: fn(Value) -> Value, from: u64, to: u64| {
            table.put(change(table.items()["E v0"].clone()));
            audit(&table, 4);
            let step = json!({"ID": "E", "Step": "Raise", "From": from, "To": to});
            repaired(&table, &["E"], 0, &[step], json!({"Entities": 1, "Raised": 1}));
            audit(&table, 0);
            table.items()
        };
        // The latest item has the state of the highest version, so no version is created from it.
        let same = raise(|v0| with(v0, "Latest", json!({"N": "1"})), 1, 4);
        assert_eq!(without_requests(same), without_requests(before.clone()));
        // Attributes that differ from the version become the next version.
        let changed = raise(|v0| with(v0, "A", json!({"S": "by hand"})), 4, 5);
        assert_eq!(changed[&key(5)]["A"], json!({"S": "by hand"}));
        // Another program counts from 1 again.
        let items = raise(|_| with(item("E", "v0", "new life"), "Latest", json!({"N": "1"})), 1, 6);
        assert_eq!(items[&key(6)]["State"], json!({"S": "new life"}));
        for number in 1..=4 {
            assert_eq!(items[&key(number)], before[&key(number)]);
        }
        // The record of the raised latest item results in the same version item.
        let document = tempfile::NamedTempFile::new().unwrap();
        let raised = table.records().split_off(8);
        fs::write(document.path(), table.document(&raised[1..]).body.to_string()).unwrap();
        let redriven = table.json(&["redrive", document.path().to_str().unwrap()], 0);
        assert_eq!(
            (&redriven["Records"], &redriven["AlreadyRecorded"]),
            (&json!(1), &json!(1))
        );
        assert_eq!(put(&table, "A=6"), 7);
        audit(&table, 0);
    }
}

#[test]
fn a_time_far_ahead_begins_a_new_sequence() {
    let table = new_table();
    table.lines(&["put", "--mode", "inline", "E", "--set", "A=1", "--actor", "amy"], 0);
    let mut v0 = table.items()["E v0"].clone();
    for (name, value) in [("Latest", "2"), ("RecordedVersion", "2")] {
        v0[name] = json!({"N": value});
    }
    v0["RecordedAt"] = json!({"S": "2999-01-01T00:00:00.000000000Z"});
    table.put(v0);
    // Updates go on.
    put(&table, "A=2");
    let found = table.lines(&["audit", "E", "--lag", "0"], 4);
    assert!(
        found.contains(&json!({"ID": "E", "Finding": "Ahead", "Version": 3})),
        "{found:?}"
    );
    let (plan, summary) = repair(&table, &["E", "--yes"], 4);
    let retime = json!({"ID": "E", "Step": "Retime", "From": 3, "To": 4});
    assert!(plan.contains(&retime), "{plan:?}");
    assert_eq!(summary["Raised"], 1);
    let items = table.items();
    assert_eq!(items["E v4"]["A"], json!({"S": "2"}));
    assert!(items["E v4"].get("Actor").is_none() && items["E v4"]["Reason"].is_object());
    assert!(items["E v4"]["RecordedAt"]["S"].as_str() < Some("2999"));
    assert_eq!(items["E v4"]["RecordedSince"], json!({"N": "4"}));
    put(&table, "A=5");
    assert_eq!(table.items()["E v5"]["RecordedSince"], json!({"N": "4"}));
    let at = table.json(&["get", "E", "--at", "2998-01-01"], 0);
    assert_eq!(at["Version"], 5);
    let found = table.lines(&["audit", "E", "--lag", "0"], 4);
    assert!(!found.iter().any(|line| line["Finding"] == "Ahead"), "{found:?}");
}

fn without_requests(mut items: BTreeMap<String, Value>) -> BTreeMap<String, Value> {
    let latest = items.get_mut("E v0").unwrap().as_object_mut().unwrap();
    latest.remove("RecentRequests");
    latest.remove("RequestsSince");
    latest.remove("RequestsDropped");
    // A latest item that is restored has none.
    latest.remove("V0Id");
    items
}

#[test]
fn a_missing_latest_item_is_restored_only_with_revive() {
    let table = new_table();
    put(&table, "A=1");
    put(&table, "A=2");
    let before = table.items();
    table.delete("E", "v0");
    let gone = table.items();
    let (plan, summary) = repair(&table, &["--all", "--yes"], 4);
    assert_eq!(
        (&plan[0]["Finding"], &plan[0]["Step"]),
        (&json!("Orphan"), &json!("None"))
    );
    assert_eq!(done(&summary), json!({"Entities": 1, "Left": 1}));
    assert_eq!(table.items(), gone);
    let revive = json!({"ID": "E", "Step": "Revive", "Version": 2});
    let counts = json!({"Entities": 1, "Revived": 1});
    repaired(&table, &["--all", "--revive"], 0, &[revive], counts);
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
        .replace(&format!("table/{}/", table.name), "table/Other/")
        .replace("\"7\"", "\"8\"");
    fs::write(folder.path().join("c"), other).unwrap();
    let path = folder.path().to_str().unwrap();
    let (plan, summary) = repair(&table, &["E", "--from", path, "--yes"], 4);
    let doubtful = json!({"ID": "E", "Step": "None", "From": 1, "To": 1, "Why": "the sources contain different items"});
    assert_eq!(plan[1], doubtful);
    assert_eq!(done(&summary), json!({"Entities": 1, "Recorded": 1, "Left": 1}));
    assert!(!table.items().contains_key("E v1"));
    let first = format!("{path}/a");
    repair(
        &table,
        &["E", "--from", &first, "--from", &format!("{path}/c"), "--yes"],
        0,
    );
    assert_eq!(
        number(&table.items()["E v1"]["N"]),
        number(&records[0].json()["dynamodb"]["NewImage"]["N"])
    );
}

/// Another program loaded the versions, in the width `v01`. The latest item gets the number of the version with the same state, or
/// the next number.
#[test]
fn a_latest_item_without_a_counter_is_adopted() {
    let is_skipped = || testkit::endpoint::is_about_one_table("a_latest_item_without_a_counter_is_adopted");
    let counted = |item| with(item, "Latest", json!({"N": "3"}));
    for (key, state, is_counted, version) in [
        ("v0", "NORMAL", false, 3),
        ("v0", "OK", false, 4),
        ("v00", "NORMAL", false, 3),
        ("v00", "OK", false, 4),
        // It keeps its number, unless that is the one of another state.
        ("v00", "NORMAL", true, 3),
        ("v00", "OK", true, 4),
    ] {
        if is_counted && is_skipped() {
            continue;
        }
        let table = Table::with_digits(env!("CARGO_BIN_EXE_vzero"), 2);
        let id = "Equipment#1";
        for (key, state) in [("v01", "NORMAL"), ("v02", "WARNING1"), ("v03", "NORMAL")] {
            table.put(item(id, key, state));
        }
        let latest = item(id, key, state);
        table.put(if is_counted { counted(latest) } else { latest });
        let before = table.items();
        let rejected = table.run(&["put", id, "--set", "State=NEW"]);
        assert_eq!(rejected.code, 4);
        assert!(rejected.stderr.contains("vzero admin repair"), "{}", rejected.stderr);
        let read = table.run(&["get", id]);
        assert_eq!(read.code, if key == "v0" { 4 } else { 3 }, "{}", read.stderr);
        assert_eq!(table.lines(&["history", id], 0).len(), 3);
        assert_eq!(table.items(), before);

        let step = match key {
            "v0" => json!({"ID": id, "Step": "Adopt", "Version": version}),
            _ => json!({"ID": id, "Step": "Move", "From": key, "Version": version}),
        };
        repaired(&table, &["--all"], 0, &[step], json!({"Entities": 1, "Adopted": 1}));
        audit(&table, 0);
        repaired(&table, &[id], 0, &[], json!({}));
        // No version has changed.
        let items = table.items();
        for key in ["v01", "v02", "v03"] {
            let name = format!("{id} {key}");
            assert_eq!(items[&name], before[&name]);
        }
        assert!(!items.contains_key("Equipment#1 v00"));
        let read = table.json(&["get", id], 0);
        assert_eq!(
            (&read["Version"], &read["Attributes"]["State"]),
            (&json!(version), &json!(state))
        );
        let put = table.json(&["put", "--mode", "inline", id, "--set", "State=NEW"], 0);
        assert_eq!(
            (&put["Outcome"], &put["Version"]),
            (&json!("Written"), &json!(version + 1))
        );
        audit(&table, 0);
    }
    if is_skipped() {
        return;
    }
    // Without versions.
    let table = Table::with_digits(env!("CARGO_BIN_EXE_vzero"), 2);
    table.put(item("Alone", "v00", "OK"));
    let step = json!({"ID": "Alone", "Step": "Move", "From": "v00", "Version": 1});
    repaired(&table, &["--all"], 0, &[step], json!({"Entities": 1, "Adopted": 1}));
    assert_eq!(table.items()["Alone v01"]["State"], json!({"S": "OK"}));
}

/// Versions up to the floor existed, although none of them exists any more.
#[test]
fn a_counter_never_continues_below_the_floor() {
    let table = new_table();
    let pinned = with(item("E", "v3", "old"), "Pinned", json!({"BOOL": true}));
    let counted = with(item("E", "v0", "new"), "Latest", json!({"N": "2"}));
    let first = [item("E", "v1", "first"), item("E", "v2", "new"), counted];
    // The exit codes of `prune E` and `prune --all`.
    for (items, expected, pruned) in [
        (&[][..], Value::Null, [3, 0]),
        (&[pinned], Value::Null, [3, 0]),
        (&[item("E", "v0", "new")], json!("new"), [4, 4]),
        // An earlier release counted from 1.
        (&first, json!("new"), [4, 4]),
    ] {
        table.put(json!({"PK": {"S": "E"}, "SK": {"S": "floor"}, "Floor": {"N": "10"}}));
        for item in items {
            table.put(item.clone());
        }
        let before = table.items();
        let found = table.lines(&["audit", "E", "--lag", "0"], 4);
        let below = json!({"ID": "E", "Finding": "BelowFloor", "Floor": 10});
        assert!(found.contains(&below), "{found:?}");
        assert!(!format!("{found:?}").contains("Unpruned"), "{found:?}");
        assert_eq!(table.lines(&["audit", "--all", "--lag", "0"], 4)[0], found[0]);
        let is_counted = items.len() == first.len();
        // Nothing is removed, and without a repair nothing is written.
        for (scope, code) in ["E", "--all"].into_iter().zip(pruned) {
            let run = table.run(&["prune", scope, "--keep", "1"]);
            assert_eq!(run.code, code, "{run:?}");
            let said = run.stdout.clone() + &run.stderr;
            assert_eq!(said.contains("Latest is below the floor"), is_counted, "{run:?}");
        }
        if !is_counted {
            for arguments in [
                &["put", "E", "--set", "A=1"][..],
                &["put", "E", "--set", "A=1", "--expect", "0"],
            ] {
                assert_eq!(table.run(arguments).code, 4);
            }
        }
        assert_eq!(table.items(), before);
        let mut step = json!({"ID": "E", "Step": "Recount", "Version": 11});
        if !before.contains_key("E v0") {
            // The state of the entity is lost.
            step["Tombstone"] = json!(true);
        }
        repaired(&table, &["E"], 0, &[step], json!({"Entities": 1, "Raised": 1}));
        let after = table.items();
        let mut others = before
            .iter()
            .filter(|(key, _)| !["E v0", "E floor"].contains(&key.as_str()));
        assert!(others.all(|(key, item)| after[key] == *item));
        let v11 = &after["E v11"];
        assert_eq!(
            (&v11["State"]["S"], v11.get("Deleted").is_some()),
            (&expected, expected.is_null())
        );
        // What was created below the floor is reported, and kept as long as the rule keeps it.
        let code = if is_counted { 4 } else { 0 };
        audit(&table, code);
        assert_eq!(table.lines(&["prune", "E", "--keep", "100"], 0)[0]["Marked"], 0);
        assert_eq!(put(&table, "State=x"), 12);
        repair(&table, &["E", "--yes"], code);
        table.run(&["purge", "E", "--yes", "--wait", "0s"]);
        assert!(table.items().is_empty());
    }
}
