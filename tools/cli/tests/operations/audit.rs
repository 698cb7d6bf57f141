//! `vzero audit`.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use serde_json::{Value, json};
use shared::config::WriteMode;
use testkit::{
    command::{Run, json_lines},
    database,
    table::Table,
};

use crate::{latest, new_table, prune::run_until_saved, version, with_digits};

fn split(mut ran: Run) -> (Vec<Value>, Value) {
    let summary = ran.lines.pop().unwrap_or_default();
    assert!(summary.get("Entities").is_some(), "{ran:?}");
    let mut findings = ran.lines;
    findings.sort_by_key(Value::to_string);
    (findings, summary)
}

fn run(id: &str, name: &str, from: u64, to: u64) -> Value {
    json!({"ID": id, "Finding": name, "From": from, "To": to})
}

/// Creates an entity for each kind of finding, and returns the findings.
pub(crate) fn wrong(table: &Table) -> Vec<Value> {
    for id in ["Well", "Gap", "Tail", "Differs", "Orphan", "Back"] {
        for state in 1..=12 {
            table.write(json!({"ID": id, "State": state}));
        }
    }
    table.put(json!({"PK": {"S": "Well"}, "SK": {"S": "Metadata"}}));
    table.put(json!({"PK": {"S": "Well"}, "SK": {"S": "2020-01-01T00:00:00"}}));
    table.put(json!({"PK": {"S": "Well"}, "SK": {"S": "request#1"}, "Version": {"N": "99"}}));
    table.put(json!({"PK": {"S": "Only"}, "SK": {"S": "Metadata"}}));
    for key in ["v3", "v4", "v10"] {
        table.delete("Gap", key);
    }
    table.delete("Tail", "v12");
    table.put(json!({"PK": {"S": "Differs"}, "SK": {"S": "v12"}, "State": {"N": "1"}, "RequestId": {"S": "x"}}));
    table.delete("Orphan", "v0");
    // v0 was deleted manually, and created again.
    table.delete("Back", "v0");
    table.put(json!({"PK": {"S": "Back"}, "SK": {"S": "v0"}, "Latest": {"N": "1"}, "State": {"N": "7"}}));
    table.put(json!({"PK": {"S": "Hand"}, "SK": {"S": "v0"}, "State": {"S": "x"}}));
    vec![
        run("Back", "Stray", 2, 12),
        json!({"ID": "Back", "Finding": "LatestDiffers", "Version": 1}),
        json!({"ID": "Differs", "Finding": "LatestDiffers", "Version": 12}),
        run("Gap", "Gap", 10, 10),
        run("Gap", "Gap", 3, 4),
        json!({"ID": "Hand", "Finding": "NoVersion", "Why": "Latest is missing"}),
        run("Orphan", "Orphan", 1, 12),
        run("Tail", "Gap", 12, 12),
    ]
}

#[test]
fn every_fault_is_found_and_nothing_else() {
    let table = new_table();
    let mut expected = wrong(&table);
    expected.sort_by_key(Value::to_string);
    for arguments in [
        "audit --all --lag 0",
        "audit --all --lag 1",
        "audit --all --lag 0 --segments 1",
        "audit --all --lag 0 --segments 13 --max-read-units 10000",
    ] {
        let ran = table.run(arguments);
        assert_eq!(ran.code, 4, "{ran:?}");
        assert_eq!(ran.stderr, "error: the audit found errors\n");
        let (findings, summary) = split(ran);
        assert_eq!(findings, expected, "{arguments:?}");
        assert_eq!((&summary["Entities"], &summary["Versions"]), (&json!(7), &json!(68)));
        let kinds = json!({"Gap": 3, "LatestDiffers": 2, "NoVersion": 1, "Orphan": 1, "Stray": 1});
        assert_eq!(summary["Findings"], kinds);
        assert!(summary["ReadUnits"].as_f64().unwrap() > 1.0, "{summary}");
    }
    let ids = "audit Well Gap Tail Differs Orphan Back Hand --lag 0";
    let ran = table.run(&ids);
    assert_eq!(ran.code, 4);
    assert_eq!(split(ran).0, expected);
    let shown = table.run("audit Gap --lag 0 --output table").stdout;
    assert!(shown.contains(" From 3, To 4 "), "{shown}");
}

#[test]
fn a_table_without_faults() {
    for digits in [1, 3] {
        let table = with_digits(digits);
        for id in ["A", "B"] {
            for state in 1..=101 {
                table.write(json!({"ID": id, "State": state}));
            }
        }
        table.check(
            r#"
            audit --all => Entities [2] => {"Versions": 202, "Findings": {}} => 0 nothing
            audit A Nobody => {"Versions": 101} => 3
            "#,
        );
    }
}

#[test]
fn invalid_arguments() {
    let table = new_table();
    table.check(
        "
        audit => 2
        audit --all E => 2
        audit E --state x => 2
        audit --all --max-read-units 0 => 2
        audit --all --segments 0 => 2
        audit '' => 2
        ",
    );
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.json");
    let path = path.to_str().unwrap();
    let state = |command: &str, table: &str, digits: u8| {
        json!({"Command": command, "Table": table, "VersionDigits": digits.to_string(), "Segments": [], "ReadUnits": 0})
            .to_string()
    };
    for state in [
        "nonsense",
        "{}",
        &state("audit", "Other", 1),
        &state("backfill", &table.name, 1),
        &state("audit", &table.name, 2),
    ] {
        std::fs::write(path, state).unwrap();
        let ran = table.run(&format!("audit --all --state {path}"));
        assert_eq!(ran.code, 2, "{state} {ran:?}");
        // It belongs to another audit.
        assert_eq!(std::fs::read_to_string(path).unwrap(), state);
    }
}

#[test]
fn a_version_that_arrives_within_the_lag_is_no_gap() {
    let table = new_table();
    for id in ["Late", "Never"] {
        for state in 1..=3 {
            table.write(json!({"ID": id, "State": state}));
        }
        for key in ["v2", "v3"] {
            table.delete(id, key);
        }
    }
    // The state file shows that the audit has read the entities. Then the versions arrive.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.json");
    let child = table.start(&format!("audit --all --lag 3 --segments 1 --state {}", path.display()));
    wait_for(&path, |state| state.contains("\"Late\"") && state.contains("\"Never\""));
    table.put_version("Late");
    table.put(json!({"PK": {"S": "Late"}, "SK": {"S": "v2"}, "State": {"N": "2"}}));
    table.put_version("Never");
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(4));
    let mut findings = json_lines(&String::from_utf8(output.stdout).unwrap());
    findings.pop();
    findings.sort_by_key(Value::to_string);
    assert_eq!(
        findings,
        [
            json!({"ID": "Late", "Finding": "Lagging", "Through": 1, "Latest": 3}),
            run("Never", "Gap", 2, 2),
            json!({"ID": "Never", "Finding": "Lagging", "Through": 1, "Latest": 3}),
        ]
    );
    assert!(!path.exists());
}

#[test]
fn only_lag_exits_with_0() {
    let table = new_table();
    table.write(json!({"ID": "Late", "State": 1}));
    table.delete("Late", "v1");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.json");
    let child = table.start(&["audit", "--all", "--lag", "3", "--state", path.to_str().unwrap()]);
    wait_for(&path, |state| state.contains("\"Late\""));
    table.put_version("Late");
    let output = child.wait_with_output().unwrap();
    let said = json_lines(&String::from_utf8(output.stdout).unwrap());
    assert_eq!(
        (output.status.code(), &said[1]["Findings"]),
        (Some(0), &json!({"Lagging": 1}))
    );
}

fn wait_for(path: &std::path::Path, there: impl Fn(&str) -> bool) {
    let began = std::time::Instant::now();
    while !std::fs::read_to_string(path).is_ok_and(|state| there(&state)) {
        assert!(began.elapsed().as_secs() < 30, "nothing is written to the file");
        std::thread::yield_now();
    }
}

#[test]
fn a_killed_audit_resumes() {
    let table = new_table();
    let mut expected = BTreeSet::new();
    for entity in 0..12 {
        let id = format!("E{entity}");
        table.put(latest(&id, 5));
        for number in [1, 2, 4, 5, 6] {
            table.put(version(&id, number));
        }
        expected.insert(run(&id, "Gap", 3, 3).to_string());
        expected.insert(run(&id, "Stray", 6, 6).to_string());
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.json");
    let file = path.to_str().unwrap();
    for lag in ["0", "1"] {
        let arguments = format!("audit --all --lag {lag} --segments 2 --state {file}");
        let slowly = format!("{arguments} --max-read-units 15");
        let (mut found, mut kills) = (BTreeSet::new(), 0);
        // Each run is killed at its first output, and makes progress.
        let summary = loop {
            let (is_ended, ran) = run_until_saved(&table, &slowly, &path);
            let findings = ran.lines.iter().filter(|line| line.get("Finding").is_some());
            found.extend(findings.map(Value::to_string));
            if is_ended {
                break ran.lines.last().unwrap().clone();
            }
            kills += 1;
            assert!(kills < 200, "it gets nowhere");
        };
        assert!(kills > 1, "it was killed {kills} times only");
        assert_eq!(found, expected);
        // Nothing is counted twice.
        assert_eq!(
            summary["Findings"],
            json!({"Gap": 12, "Stray": 12}),
            "after {kills} kills"
        );
        assert_eq!((&summary["Entities"], &summary["Versions"]), (&json!(12), &json!(60)));
        assert!(!path.exists());
    }
}

#[test]
fn an_audit_during_writes_finds_no_fault() {
    let table = new_table();
    let done = Arc::new(AtomicBool::new(false));
    let writers = [WriteMode::Stream, WriteMode::Inline, WriteMode::Inline].map(|mode| {
        let (store, done) = (table.store.clone(), Arc::clone(&done));
        table.runtime.spawn(async move {
            let mut count = 0;
            while !done.load(Ordering::Relaxed) {
                let id = format!("{mode:?}{}", count % 5);
                let update = database::update(json!({"ID": id, "State": count}));
                database::write(&store, &update, database::mode(mode)).await.unwrap();
                count += 1;
            }
            count
        })
    });
    for _ in 0..4 {
        let ran = table.run("audit --all --lag 1 --max-read-units 400");
        assert_eq!(ran.code, 0, "{ran:?}");
    }
    done.store(true, Ordering::Relaxed);
    for writer in writers {
        assert!(table.runtime.block_on(writer).unwrap() > 0);
    }
}
