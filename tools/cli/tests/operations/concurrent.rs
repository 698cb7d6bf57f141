//! Commands beside other writers, and while they wait.

use std::{
    io::{BufRead as _, BufReader, Read as _},
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
fn a_purge_reports_concurrent_updates() {
    let table = new_table();
    for _ in 0..3 {
        script::run(&table, r#"@writes 40 {"ID": "E"}"#);
        let child = table.start("purge E --yes --wait 1s");
        for number in 1..=20 {
            table.write_beside_purge(json!({"ID": "E", "State": number}));
        }
        let ran = Run::wait(child);
        // Either the purge deleted everything, and the entity started again, or it reports a writer.
        let is_reported = ran.code == 4 && ran.stderr.contains("it is being written");
        let is_deleted = || ran.code == 0 && !table.items_of("E").contains_key("v0");
        assert!(is_reported || is_deleted(), "{ran:?}");
        table.run("purge E --yes --wait 0s");
        assert!(table.items_of("E").is_empty());
    }
}

#[test]
fn a_hold_stops_a_purge_that_waits() {
    let table = new_table();
    table.write(json!({"ID": "E", "State": 1}));
    let mut child = table.start("purge E --yes --wait 2s");
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    stderr.read_line(&mut String::new()).unwrap();
    script::run(&table, "hold E --reason x => 0");
    let mut text = String::new();
    stderr.read_to_string(&mut text).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(4), "{text}");
    assert!(text.contains("it is on hold since"), "{text}");
    // The latest item would be deleted last.
    script::run(&table, r#"@keys E => = ["floor","v0"]"#);
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
