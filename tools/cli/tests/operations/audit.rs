//! `vzero audit`. The unit tests of `operations::audit` have more findings.

use std::{
    collections::BTreeSet,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use serde_json::{Value, json};
use shared::config::WriteMode;
use testkit::{
    command::{Run, members},
    database,
    table::Table,
};

use crate::{
    killed, latest, new_table,
    script::{self, script_tests},
    version,
};

/// Returns the findings and the summary.
fn split(mut ran: Run) -> (Vec<Value>, Value) {
    let summary = ran.lines.pop().unwrap_or_default();
    assert!(summary.get("Entities").is_some(), "{ran:?}");
    ran.lines.sort_by_key(Value::to_string);
    (ran.lines, summary)
}

fn run(id: &str, name: &str, from: u64, to: u64) -> Value {
    json!({"ID": id, "Finding": name, "From": from, "To": to})
}

#[test]
fn every_fault_is_found_and_nothing_else() {
    let table = new_table();
    for id in ["Well", "Gap", "Tail", "Differs", "Orphan", "Back"] {
        (1..=12).for_each(|state| assert_eq!(table.write(json!({"ID": id, "State": state})), state));
    }
    // v0 of Back was deleted manually, and created again.
    script::run(
        &table,
        r#"
        @put Well Metadata {}
        @put Well 2020-01-01T00:00:00 {}
        @put Well request#1 {"Version": {"N": "99"}}
        @put Only Metadata {}
        @delete Gap v3
        @delete Gap v4
        @delete Gap v10
        @delete Tail v12
        @put Differs v12 {"State": {"N": "1"}, "RequestId": {"S": "x"}}
        @delete Orphan v0
        @delete Back v0
        @put Back v0 {"Latest": {"N": "1"}, "State": {"N": "7"}}
        @put Hand v0 {"State": {"S": "x"}}
        "#,
    );
    let mut expected = [
        run("Back", "Stray", 2, 12),
        json!({"ID": "Back", "Finding": "LatestDiffers", "Version": 1}),
        json!({"ID": "Differs", "Finding": "LatestDiffers", "Version": 12}),
        run("Gap", "Gap", 10, 10),
        run("Gap", "Gap", 3, 4),
        json!({"ID": "Hand", "Finding": "NoVersion", "Why": "Latest is missing"}),
        run("Orphan", "Orphan", 1, 12),
        run("Tail", "Gap", 12, 12),
    ];
    expected.sort_by_key(Value::to_string);
    for arguments in [
        "--all --lag 0",
        "--all --lag 1",
        "--all --lag 0 --segments 1",
        "--all --lag 0 --segments 13 --max-read-units 10000",
        "Well Gap Tail Differs Orphan Back Hand --lag 0",
    ] {
        let ran = table.run(&format!("audit {arguments}"));
        assert_eq!(
            (ran.code, ran.stderr.as_str()),
            (4, "error: the audit found errors\n"),
            "{ran:?}"
        );
        let (findings, summary) = split(ran);
        assert_eq!(findings, expected, "{arguments:?}");
        let kinds = json!({"Gap": 3, "LatestDiffers": 2, "NoVersion": 1, "Orphan": 1, "Stray": 1});
        assert_eq!(summary["Findings"], kinds);
        if arguments.starts_with("--all") {
            assert_eq!(members(&summary, &["Entities", "Versions"]), json!([7, 68]));
            assert!(summary["ReadUnits"].as_f64().unwrap() > 1.0, "{summary}");
        }
    }
    table.check("audit Gap --lag 0 --output table => 4 … => ~  From 3, To 4 ");
}

script_tests! {
    fn a_table_without_faults();
}

#[test]
fn a_state_that_belongs_to_another_audit_is_not_overwritten() {
    let table = new_table();
    let path = tempfile::NamedTempFile::new().unwrap();
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
        std::fs::write(&path, state).unwrap();
        let ran = table.run(&["audit", "--all", "--state", path.path().to_str().unwrap()]);
        assert_eq!(ran.code, 2, "{state} {ran:?}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), state);
    }
}

/// Audits the table, and puts versions when its state shows that it has read these entities.
fn audit_while(table: &Table, read: &[&str], put: impl FnOnce()) -> (i32, Vec<Value>, Value) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.json");
    let child = table.start(&format!("audit --all --lag 3 --segments 1 --state {}", path.display()));
    let began = std::time::Instant::now();
    let is_read = |path: &Path| {
        let state = std::fs::read_to_string(path).unwrap_or_default();
        read.iter().all(|id| state.contains(&format!("\"{id}\"")))
    };
    while !is_read(&path) {
        assert!(began.elapsed().as_secs() < 30, "nothing is written to the file");
        std::thread::yield_now();
    }
    put();
    let ran = Run::wait(child);
    assert!(!path.exists());
    let code = ran.code;
    let (findings, summary) = split(ran);
    (code, findings, summary)
}

#[test]
fn a_version_that_arrives_within_the_lag_is_no_gap() {
    let table = new_table();
    table.write(json!({"ID": "Only", "State": 1}));
    table.delete("Only", "v1");
    // Only lag exits with 0.
    let (code, _, summary) = audit_while(&table, &["Only"], || {
        table.put_version("Only");
    });
    assert_eq!((code, &summary["Findings"]), (0, &json!({"Lagging": 1})));
    for id in ["Late", "Never"] {
        (1..=3).for_each(|state| assert_eq!(table.write(json!({"ID": id, "State": state})), state));
        table.delete(id, "v2");
        table.delete(id, "v3");
    }
    let (code, findings, _) = audit_while(&table, &["Late", "Never"], || {
        table.put_version("Late");
        table.put(json!({"PK": {"S": "Late"}, "SK": {"S": "v2"}, "State": {"N": "2"}}));
        table.put_version("Never");
    });
    let lagging = |id: &str| json!({"ID": id, "Finding": "Lagging", "Through": 1, "Latest": 3});
    assert_eq!(
        (code, findings),
        (4, vec![lagging("Late"), run("Never", "Gap", 2, 2), lagging("Never")])
    );
}

#[test]
fn a_killed_audit_resumes() {
    let table = new_table();
    let mut expected = BTreeSet::new();
    for id in (0..12).map(|entity| format!("E{entity}")) {
        table.put(latest(&id, 5));
        for number in [1, 2, 4, 5, 6] {
            table.put(version(&id, number));
        }
        expected.extend([run(&id, "Gap", 3, 3), run(&id, "Stray", 6, 6)].map(|finding| finding.to_string()));
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.json");
    for lag in ["0", "1"] {
        let slowly = format!(
            "audit --all --lag {lag} --segments 2 --max-read-units 15 --state {}",
            path.display()
        );
        // Each run is killed at its first output, and makes progress.
        let runs = killed::run_killed(|| table.start(&slowly), killed::changes_of(&path));
        assert!(runs.len() > 2, "it was killed {} times only", runs.len() - 1);
        let findings = runs
            .iter()
            .flat_map(|run| &run.lines)
            .filter(|line| line.get("Finding").is_some());
        assert_eq!(findings.map(Value::to_string).collect::<BTreeSet<_>>(), expected);
        // Nothing is counted twice.
        let summary = runs.last().unwrap().lines.last().unwrap();
        let counts = json!([{"Gap": 12, "Stray": 12}, 12, 60]);
        assert_eq!(members(summary, &["Findings", "Entities", "Versions"]), counts);
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
        table.check("audit --all --lag 1 --max-read-units 400 => 0");
    }
    done.store(true, Ordering::Relaxed);
    for writer in writers {
        assert!(table.runtime.block_on(writer).unwrap() > 0);
    }
}
