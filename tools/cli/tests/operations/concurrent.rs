//! Commands beside other writers, and while they wait.

use std::{
    io::{BufRead as _, BufReader},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use serde_json::{Value, json};
use shared::config::WriteMode;
use testkit::{command::Run, database, script, table::Table};

use crate::new_table;

/// Audits the table, and puts versions when its state shows that it has read these entities.
fn audit_while(table: &Table, read: &[&str], put: impl FnOnce()) -> Run {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.json");
    let mut child = table.start(&format!("audit --all --lag 3 --segments 1 --state {}", path.display()));
    let is_read = || {
        let state = std::fs::read_to_string(&path).unwrap_or_default();
        read.iter().all(|id| state.contains(&format!("\"{id}\"")))
    };
    while !is_read() {
        assert!(child.try_wait().unwrap().is_none(), "nothing was written to the file");
        std::thread::yield_now();
    }
    put();
    let ran = Run::wait(child);
    assert!(!path.exists());
    ran
}

#[test]
fn a_version_that_arrives_within_the_lag_is_no_gap() {
    let table = new_table();
    table.write(json!({"ID": "Only", "State": 1}));
    table.delete("Only", "v1");
    // Only lag exits with 0.
    let ran = audit_while(&table, &["Only"], || {
        table.put_version("Only");
    });
    assert_eq!(
        (ran.code, &ran.lines.last().unwrap()["Findings"]),
        (0, &json!({"Lagging": 1}))
    );
    for id in ["Late", "Never"] {
        script::run(
            &table,
            &r#"@writes 3 {"ID": "$ID"}
            @delete $ID v2
            @delete $ID v3"#
                .replace("$ID", id),
        );
    }
    let mut ran = audit_while(&table, &["Late", "Never"], || {
        table.put_version("Late");
        table.put(json!({"PK": {"S": "Late"}, "SK": {"S": "v2"}, "N": {"N": "2"}}));
        table.put_version("Never");
    });
    ran.lines.pop();
    ran.lines.sort_by_key(Value::to_string);
    let lagging = |id: &str| json!({"ID": id, "Finding": "Lagging", "Through": 1, "Latest": 3});
    let gap = json!({"ID": "Never", "Finding": "Gap", "From": 2, "To": 2});
    assert_eq!((ran.code, ran.lines), (4, vec![lagging("Late"), gap, lagging("Never")]));
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
        script::run(&table, "audit --all --lag 1 --max-read-units 400 => 0");
    }
    done.store(true, Ordering::Relaxed);
    for writer in writers {
        assert!(table.block_on(writer).unwrap() > 0);
    }
}

#[test]
fn a_purge_waits_for_the_stream_and_says_so() {
    let table = new_table();
    table.write(json!({"ID": "E", "State": 1}));
    let mut child = table.start("purge E --yes");
    let mut note = String::new();
    BufReader::new(child.stderr.take().unwrap())
        .read_line(&mut note)
        .unwrap();
    // The time of the first deletions is part of the 90 s.
    let seconds = note.strip_prefix("note: waiting ").unwrap().split(' ').next().unwrap();
    assert!((80..=90).contains(&seconds.parse().unwrap()), "{note}");
    assert!(
        note.ends_with(" s for versions that are still in the stream\n"),
        "{note}"
    );
    // The marker was written first, then all other items were deleted. An interruption keeps the latest item.
    child.kill().unwrap();
    child.wait().unwrap();
    script::run(
        &table,
        r#"
        @reserved => ~ #vzero#purged#
        @keys E => = ["v0"]
        purge E --yes --wait 0s => {"Deleted": {"v0": 1}}
        @keys E => = []
        "#,
    );
}
