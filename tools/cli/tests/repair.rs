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

fn audit(table: &Table, code: i32) {
    table.lines(&["audit", "--all", "--lag", "0"], code);
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

    let (_, summary) = repair(&table, &["E", "--yes"], 4);
    assert_eq!(done(&summary), json!({"Entities": 1, "Recorded": 1, "Left": 1}));
    let file = format!("{path}/second");
    let (plan, summary) = repair(&table, &["--all", "--from", path, "--yes"], 4);
    assert_eq!(plan, [step(2, &file), none(3, 4)]);
    assert_eq!(done(&summary), json!({"Entities": 1, "Recorded": 1, "Left": 1}));
    audit(&table, 4);
    let (plan, summary) = repair(&table, &["--all", "--from", path, "--stream", "--yes"], 0);
    assert_eq!(plan, [step(3, "the stream"), step(4, "the stream")]);
    assert_eq!(done(&summary), json!({"Entities": 1, "Recorded": 2}));
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
    let (plan, summary) = repair(&table, &["--all", "--stream", "--yes"], 0);
    assert_eq!((plan, done(&summary)), (vec![], json!({})));
    repair(&table, &["nobody", "--yes"], 3);
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
    let mut changed = latest(3);
    changed["X"] = json!({"N": "1"});
    table.put(changed);
    let (_, summary) = repair(&table, &["E", "--stream", "--yes"], 0);
    assert_eq!(done(&summary), json!({"Entities": 1, "Recorded": 3}));
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
    if testkit::endpoint::is_about_one_table("a_counter_that_was_reset_continues_after_the_highest_version") {
        return;
    }
    for digits in ["1", "3"] {
        let table = new_table();
        let put = |n: &str| {
            let written = ["--version-digits", digits, "put", "--mode", "inline", "E", "--set", n];
            table.lines(&written, 0)[0]["Version"].clone()
        };
        let width: usize = digits.parse().unwrap();
        let key = |number: u64| format!("v{number:0width$}");
        for n in ["A=1", "A=2", "A=3", "A=4"] {
            put(n);
        }
        let history = table.items();
        table.delete("E", "v0");
        // Another program counts from 1 again.
        table.put(json!({"PK": {"S": "E"}, "SK": {"S": "v0"}, "Latest": {"N": "1"}, "A": {"S": "new life"}}));
        audit(&table, 4);
        let (plan, summary) = repair(&table, &["E", "--yes"], 0);
        assert_eq!(plan, [json!({"ID": "E", "Step": "Raise", "From": 1, "To": 5})]);
        assert_eq!(done(&summary), json!({"Entities": 1, "Raised": 1}));
        audit(&table, 0);
        let items = table.items();
        for number in 1..=4 {
            let name = format!("E {}", key(number));
            assert_eq!(items[&name], history[&name]);
        }
        assert_eq!(items[&format!("E {}", key(5))]["A"], json!({"S": "new life"}));
        if digits == "1" {
            // The record of the raised latest item results in the same version item.
            let document = tempfile::NamedTempFile::new().unwrap();
            let raised = table.records().split_off(5);
            fs::write(document.path(), table.document(&raised).body.to_string()).unwrap();
            let redriven = table.json(&["redrive", document.path().to_str().unwrap()], 0);
            assert_eq!(
                (&redriven["Records"], &redriven["AlreadyRecorded"]),
                (&json!(1), &json!(1))
            );
        }
        assert_eq!(put("A=6"), 6);
        audit(&table, 0);
    }
}

#[test]
fn a_reset_counter_alone_makes_no_version() {
    let table = new_table();
    for n in ["A=1", "A=2", "A=3"] {
        table.lines(&["put", "--mode", "inline", "E", "--set", n], 0);
    }
    let before = table.items();
    let mut v0 = before["E v0"].clone();
    v0["Latest"] = json!({"N": "1"});
    table.put(v0);
    let (plan, summary) = repair(&table, &["E", "--yes"], 0);
    assert_eq!(plan, [json!({"ID": "E", "Step": "Raise", "From": 1, "To": 3})]);
    assert_eq!(done(&summary), json!({"Entities": 1, "Raised": 1}));
    assert_eq!(without_requests(table.items()), without_requests(before.clone()));
    audit(&table, 0);
    // Attributes that differ from the version become the next version.
    let mut v0 = before["E v0"].clone();
    v0["A"] = json!({"S": "by hand"});
    table.put(v0);
    let (plan, _) = repair(&table, &["--all", "--yes"], 0);
    assert_eq!(plan, [json!({"ID": "E", "Step": "Raise", "From": 3, "To": 4})]);
    assert_eq!(table.items()["E v3"], before["E v3"]);
    assert_eq!(table.items()["E v4"]["A"], json!({"S": "by hand"}));
    audit(&table, 0);
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
    table.lines(&["put", "--mode", "inline", "E", "--set", "A=2"], 0);
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
    table.lines(&["put", "--mode", "inline", "E", "--set", "A=5"], 0);
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
    for n in ["A=1", "A=2"] {
        table.lines(&["put", "--mode", "inline", "E", "--set", n], 0);
    }
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
    let (plan, summary) = repair(&table, &["--all", "--yes", "--revive"], 0);
    assert_eq!(plan, [json!({"ID": "E", "Step": "Revive", "Version": 2})]);
    assert_eq!(done(&summary), json!({"Entities": 1, "Revived": 1}));
    // It is unchanged, except for its recent requests, which are complete only from now on.
    assert_eq!(without_requests(table.items()), without_requests(before));
    let revived = &table.items()["E v0"];
    assert_eq!(revived["RecentRequests"]["M"].as_object().unwrap().len(), 2);
    assert!(revived["RequestsSince"].is_object());
    audit(&table, 0);
    assert_eq!(
        table.lines(&["put", "--mode", "inline", "E", "--set", "A=3"], 0)[0]["Version"],
        3
    );
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

/// The numbered versions of one equipment and a copy of the latest, as another program loaded them.
fn loaded(latest: &str, state: &str) -> Table {
    let table = Table::with_digits(env!("CARGO_BIN_EXE_vzero"), 2);
    let items = [
        ("v01", "NORMAL"),
        ("v02", "WARNING1"),
        ("v03", "NORMAL"),
        (latest, state),
    ];
    for (key, state) in items {
        table.put(json!({"PK": {"S": "Equipment#1"}, "SK": {"S": key}, "State": {"S": state}}));
    }
    table
}

#[test]
fn a_latest_item_without_a_counter_is_adopted() {
    for (key, state, version) in [
        ("v0", "NORMAL", 3),
        ("v0", "OK", 4),
        ("v00", "NORMAL", 3),
        ("v00", "OK", 4),
    ] {
        let table = loaded(key, state);
        let before = table.items();
        let rejected = table.run(&["put", "Equipment#1", "--set", "State=NEW"]);
        assert_eq!(rejected.code, 4);
        assert!(rejected.stderr.contains("vzero admin repair"), "{}", rejected.stderr);
        let read = table.run(&["get", "Equipment#1"]);
        assert_eq!(read.code, if key == "v0" { 4 } else { 3 }, "{}", read.stderr);
        assert_eq!(table.lines(&["history", "Equipment#1"], 0).len(), 3);
        assert_eq!(table.items(), before);

        let (plan, summary) = repair(&table, &["Equipment#1", "--yes"], 0);
        let expected = match key {
            "v0" => json!({"ID": "Equipment#1", "Step": "Adopt", "Version": version}),
            _ => json!({"ID": "Equipment#1", "Step": "Move", "From": key, "Version": version}),
        };
        assert_eq!(plan, [expected]);
        assert_eq!(done(&summary), json!({"Entities": 1, "Adopted": 1}));
        audit(&table, 0);
        let (plan, _) = repair(&table, &["Equipment#1", "--yes"], 0);
        assert!(plan.is_empty(), "{plan:?}");
        // No version has changed.
        let items = table.items();
        for key in ["v01", "v02", "v03"] {
            let name = format!("Equipment#1 {key}");
            assert_eq!(items[&name], before[&name]);
        }
        assert!(!items.contains_key("Equipment#1 v00"));
        assert_eq!(table.json(&["get", "Equipment#1"], 0)["Attributes"]["State"], state);
        let put = table.json(&["put", "--mode", "inline", "Equipment#1", "--set", "State=NEW"], 0);
        assert_eq!(
            (&put["Outcome"], &put["Version"]),
            (&json!("Written"), &json!(version + 1))
        );
        audit(&table, 0);
    }
}

#[test]
fn a_padded_latest_item_with_a_counter_keeps_it() {
    if testkit::endpoint::is_about_one_table("a_padded_latest_item_with_a_counter_keeps_it") {
        return;
    }
    let table = loaded("v01", "NORMAL");
    let latest =
        json!({"PK": {"S": "Equipment#1"}, "SK": {"S": "v00"}, "Latest": {"N": "3"}, "State": {"S": "NORMAL"}});
    table.put(latest);
    let (plan, _) = repair(&table, &["--all", "--yes"], 0);
    assert_eq!(
        plan,
        [json!({"ID": "Equipment#1", "Step": "Move", "From": "v00", "Version": 3})]
    );
    assert_eq!(table.json(&["get", "Equipment#1"], 0)["Version"], 3);
    audit(&table, 0);
}

#[test]
fn a_padded_latest_item_never_takes_the_number_of_another_state() {
    if testkit::endpoint::is_about_one_table("a_padded_latest_item_never_takes_the_number_of_another_state") {
        return;
    }
    // Its counter is that of a version with another state.
    let table = loaded("v00", "OTHER");
    let latest = json!({"PK": {"S": "Equipment#1"}, "SK": {"S": "v00"}, "Latest": {"N": "3"}, "State": {"S": "OTHER"}});
    table.put(latest);
    // Without versions.
    table.put(json!({"PK": {"S": "Alone"}, "SK": {"S": "v00"}, "State": {"S": "OK"}}));
    audit(&table, 4);
    let (plan, summary) = repair(&table, &["--all", "--yes"], 0);
    let moved = |id: &str, version: u64| json!({"ID": id, "Step": "Move", "From": "v00", "Version": version});
    assert_eq!(plan, [moved("Alone", 1), moved("Equipment#1", 4)]);
    assert_eq!(done(&summary), json!({"Entities": 2, "Adopted": 2}));
    audit(&table, 0);
    assert_eq!(table.json(&["get", "Equipment#1"], 0)["Attributes"]["State"], "OTHER");
    assert_eq!(table.items()["Alone v01"]["State"], json!({"S": "OK"}));
}

fn floor(id: &str, floor: u64) -> Value {
    json!({"PK": {"S": id}, "SK": {"S": "floor"}, "Floor": {"N": floor.to_string()}})
}

/// Versions up to the floor existed, although none of them exists any more.
#[test]
fn a_counter_never_continues_below_the_floor() {
    let table = new_table();
    let state = |key: &str, state: &str| json!({"PK": {"S": "E"}, "SK": {"S": key}, "State": {"S": state}});
    let mut pinned = state("v3", "old");
    pinned["Pinned"] = json!({"BOOL": true});
    let counted = |latest: u64| {
        let mut item = state("v0", "new");
        item["Latest"] = json!({"N": latest.to_string()});
        item
    };
    for (items, expected) in [
        (vec![], json!(null)),
        (vec![pinned.clone()], json!(null)),
        (vec![state("v0", "new")], json!("new")),
        // An earlier release counted from 1.
        (vec![state("v1", "first"), state("v2", "new"), counted(2)], json!("new")),
    ] {
        table.put(floor("E", 10));
        for item in &items {
            table.put(item.clone());
        }
        let before = table.items();
        let found = table.lines(&["audit", "E", "--lag", "0"], 4);
        assert!(
            found.contains(&json!({"ID": "E", "Finding": "BelowFloor", "Floor": 10})),
            "{found:?}"
        );
        assert!(!format!("{found:?}").contains("Unpruned"), "{found:?}");
        assert_eq!(table.lines(&["audit", "--all", "--lag", "0"], 4)[0], found[0]);
        let is_counted = items.iter().any(|item| item.get("Latest").is_some());
        // Nothing is removed, and without a repair nothing is written.
        for arguments in [&["prune", "E", "--keep", "1"][..], &["prune", "--all", "--keep", "1"]] {
            let pruned = table.run(arguments);
            let is_one = arguments.contains(&"E");
            let expected = match before.contains_key("E v0") {
                true => 4,
                false => {
                    if is_one {
                        3
                    } else {
                        0
                    }
                }
            };
            assert_eq!(pruned.code, expected, "{pruned:?}");
            assert_eq!(
                is_counted,
                pruned.stdout.contains("Latest is below the floor")
                    || pruned.stderr.contains("Latest is below the floor"),
                "{pruned:?}"
            );
        }
        if !is_counted {
            assert_eq!(table.run(&["put", "E", "--set", "A=1"]).code, 4);
            assert_eq!(table.run(&["put", "E", "--set", "A=1", "--expect", "0"]).code, 4);
        }
        assert_eq!(table.items(), before);
        let (plan, summary) = repair(&table, &["E", "--yes"], 0);
        let mut step = json!({"ID": "E", "Step": "Recount", "Version": 11});
        if !before.contains_key("E v0") {
            // The state of the entity is lost.
            step["Tombstone"] = json!(true);
        }
        assert_eq!(plan, [step]);
        assert_eq!(done(&summary), json!({"Entities": 1, "Raised": 1}));
        let after = table.items();
        for (key, item) in before
            .iter()
            .filter(|(key, _)| !["E v0", "E floor"].contains(&key.as_str()))
        {
            assert_eq!(after[key], *item);
        }
        assert_eq!(
            after["E v11"]
                .get("State")
                .map_or(Value::Null, |state| state["S"].clone()),
            expected
        );
        assert_eq!(after["E v11"].get("Deleted").is_some(), expected.is_null());
        // What was created below the floor is reported, and kept as long as the rule keeps it.
        audit(&table, if is_counted { 4 } else { 0 });
        assert_eq!(table.lines(&["prune", "E", "--keep", "100"], 0)[0]["Marked"], 0);
        let put = table.lines(&["put", "--mode", "inline", "E", "--set", "State=x"], 0);
        assert_eq!(put[0]["Version"], 12);
        repair(&table, &["E", "--yes"], if is_counted { 4 } else { 0 });
        table.run(&["purge", "E", "--yes", "--wait", "0s"]);
        assert!(table.items().is_empty());
    }
}
