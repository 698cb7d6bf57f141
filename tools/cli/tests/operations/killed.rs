//! Runs that are killed, and resume.

use std::{
    collections::BTreeSet,
    fs,
    process::{Child, Command},
};

use serde_json::{Value, json};
use shared::{clock::since_epoch, domain::recorded_at::RecordedAt};
use testkit::{
    command::{Run, members},
    script,
    table::Table,
};

use crate::new_table;

/// A file in which a command stores its progress.
struct State {
    folder: tempfile::TempDir,
    before: Option<String>,
}

impl State {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            before: None,
        }
    }

    fn path(&self) -> String {
        self.folder.path().join("state.json").display().to_string()
    }

    fn content(&self) -> Option<String> {
        fs::read_to_string(self.path()).ok()
    }

    fn has_changed(&mut self) -> bool {
        let now = self.content();
        let has_changed = now.is_some() && now != self.before;
        if has_changed {
            self.before = now;
        }
        has_changed
    }
}

fn signal(child: &Child, signal: &str) {
    let sent = Command::new("kill").args([signal, &child.id().to_string()]).status();
    // A process that has ended is still there until it is waited for.
    assert!(sent.unwrap().success());
}

/// Stops a process, unless it ends before. On Linux, it does nothing more when this returns.
fn stop(child: &Child) {
    signal(child, "-STOP");
    let stat = || fs::read_to_string(format!("/proc/{}/stat", child.id()));
    while stat().is_ok_and(|stat| !stat.contains(") T ") && !stat.contains(") Z ")) {
        std::thread::yield_now();
    }
}

/// Runs a command again and again, and kills it whenever its state has changed, until it ends. Returns the output of all runs.
fn run_killed(state: &mut State, start: impl Fn() -> Child, mut meanwhile: impl FnMut()) -> Vec<Run> {
    let mut runs = Vec::new();
    loop {
        let mut child = start();
        let is_ended = loop {
            if child.try_wait().unwrap().is_some() {
                break true;
            }
            meanwhile();
            if state.has_changed() {
                stop(&child);
                // A run without a state has done everything, and would begin again.
                if state.content().is_some() {
                    child.kill().unwrap();
                    break false;
                }
                signal(&child, "-CONT");
            }
            std::thread::yield_now();
        };
        runs.push(Run::wait(child));
        assert!(runs.len() < 200, "it gets nowhere");
        if is_ended {
            assert!(runs.len() > 2, "it was killed {} times only", runs.len() - 1);
            assert_eq!(state.content(), None);
            return runs;
        }
    }
}

fn last_line(runs: &[Run]) -> &Value {
    runs.last().unwrap().lines.last().unwrap()
}

#[test]
fn a_killed_log_of_all_versions_prints_each_version_once() {
    let table = new_table();
    for number in 0..120 {
        table.write(json!({"ID": format!("E{}", number % 30), "State": number}));
    }
    let versions = |run: &Run| run.lines[..run.lines.len() - 1].to_vec();
    let expected = versions(&table.run("log --all --output json"));
    assert!(expected.len() >= 30);
    for order in ["", "--reverse"] {
        let mut state = State::new();
        // A time that is relative to the start of the first run.
        let slowly = format!(
            "log --all --since 1d --segments 2 --max-read-units 15 --output json --state {} {order}",
            state.path()
        );
        let runs = run_killed(&mut state, || table.start(&slowly), || {});
        let mut found = versions(runs.last().unwrap());
        if !order.is_empty() {
            found.reverse();
        }
        assert_eq!(found, expected);
        // A kill can leave the new state beside the old one.
        for path in [state.path(), format!("{}.rows", state.path())] {
            assert!(!fs::exists(&path).unwrap(), "{path}");
        }
    }
    let other = tempfile::tempdir().unwrap();
    let path = other.path().join("state.json").display().to_string();
    fs::write(&path, "{}").unwrap();
    assert_eq!(table.run(&format!("log --all --state {path}")).code, 2);
}

#[test]
fn a_killed_snapshot_resumes() {
    let table = new_table();
    for entity in 0..30 {
        table.write(json!({"ID": format!("E{entity}"), "N": 1}));
    }
    script::run(&table, "@empty Copy");
    let (copy, time) = (
        table.endpoint.table_name("Copy"),
        RecordedAt::since_epoch(since_epoch()),
    );
    for into in [String::new(), format!("--into {copy} --mode inline --yes")] {
        let mut state = State::new();
        let snapshot = format!(
            "snapshot --at {time} {into} --segments 2 --max-read-units 10 --state {}",
            state.path()
        );
        let runs = run_killed(&mut state, || table.start(&snapshot), || {});
        assert_eq!(runs.last().unwrap().code, 0, "{runs:?}");
        let lines = runs.iter().flat_map(|run| &run.lines);
        let ids: BTreeSet<_> = lines.filter_map(|line| line["ID"].as_str()).collect();
        match into.is_empty() {
            true => assert_eq!(ids.len(), 30),
            false => assert_eq!(members(last_line(&runs), &["Entities", "Refused"]), json!([30, 0])),
        }
    }
    let audit = r#"audit --all --lag 0 => {"Entities": 30, "Versions": 30}"#;
    script::run(&table, &format!("with TABLE_NAME={copy} {audit}"));
}

/// Commands that cannot continue the state of a run of prune.
const OTHERS: [&str; 8] = [
    "prune --all --older-than 91d --yes",
    "prune --all --keep 1 --yes",
    "prune --all --older-than 90d --grace 1d --yes",
    "prune --all --older-than 90d --over-gaps --yes",
    "prune --all --older-than 90d --dry-run",
    "prune --all --older-than 90d --segments 3 --yes",
    "audit --all",
    "backfill --yes",
];

fn check_others(table: &Table, state: &State) {
    let content = state.content();
    for other in OTHERS {
        let ran = table.run(&format!("{other} --state {}", state.path()));
        let said = "the checkpoint belongs to another run: prune of ";
        assert!(ran.code == 2 && ran.stderr.contains(said), "{other} {ran:?}");
        assert_eq!(state.content(), content);
    }
}

#[test]
fn a_killed_run_of_a_whole_table_resumes() {
    let table = new_table();
    for entity in 0..12 {
        script::run(&table, &format!("@recorded E{entity} 300,200,100,1"));
    }
    let mut state = State::new();
    let path = state.path();
    let slowly = format!("prune --all --older-than 90d --segments 2 --max-read-units 15 --state {path} --yes");
    let mut child = table.start(&slowly);
    while !state.has_changed() {
        assert!(child.try_wait().unwrap().is_none(), "it ended too early");
    }
    child.kill().unwrap();
    child.wait().unwrap();
    check_others(&table, &state);
    let runs = run_killed(&mut state, || table.start(&slowly), || {});
    let summary = last_line(&runs);
    let counts = members(summary, &["Entities", "Undated", "Failed"]);
    assert_eq!((runs.last().unwrap().code, counts), (0, json!([12, 0, 0])));
    // Versions that a killed run marked but did not count were left by the next one.
    let count = |name: &str| summary[name].as_u64().unwrap();
    assert_eq!(count("Marked") + count("Left"), 24, "{summary}");
    for entity in 0..12 {
        script::run(&table, &format!("@marked E{entity} => = [1, 2]"));
    }
}
