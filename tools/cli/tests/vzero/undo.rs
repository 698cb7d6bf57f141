//! `vzero undo`. The simulation compares it with a model.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    thread,
};

use operations::undo::{apply::apply, options::Options, plan::plan};
use serde_json::json;
use shared::clock::{Clock, since_epoch};
use testkit::{
    database, script_tests,
    table::{Table, write},
    updates,
};

const JOB: &str = "import-7";

script_tests! {
    Table;
    fn one_version_is_undone_and_later_changes_stay();
    fn an_erased_value_is_neither_undone_nor_restored();
    fn an_erased_value_does_not_come_back_by_a_repair();
    fn conflicts_of_an_undo_are_kept_skipped_or_overwritten();
    fn selected_versions_of_all_entities_are_undone();
}

fn options() -> Options {
    let mut options = Options {
        change_set: Some("U".to_owned()),
        write: updates::mode(updates::WriteMode::Inline),
        ..Options::default()
    };
    options.selection.actor = Some(JOB.to_owned());
    options
}

#[test]
fn only_histories_with_selected_versions_are_read_and_only_from_the_state_before() {
    let table = crate::new_table();
    for id in ["A", "B"] {
        for number in 1..=60 {
            let actor = if (id, number) == ("A", 58) { JOB } else { "amy" };
            let name = if actor == JOB { "job" } else { "other" };
            table.write(json!({"ID": id, name: number, "Text": "x".repeat(7_000), "Actor": actor}));
        }
    }
    let run = table.run(&format!(
        "undo --actor {JOB} --dry-run --output json --consumed-capacity"
    ));
    assert_eq!((run.code, &run.lines.last().unwrap()["Entities"]), (0, &json!(1)));
    let reads = run
        .stderr
        .lines()
        .filter(|line| line.ends_with(" units") && !line.starts_with("Scan"));
    let units = reads.map(|line| {
        line.trim_end_matches(" units")
            .rsplit(' ')
            .next()
            .unwrap()
            .parse::<f64>()
            .unwrap()
    });
    // The latest item, four versions, and the latest items of both in a table of their own.
    let units = units.sum::<f64>();
    assert!((10.0..=14.0).contains(&units), "{units}: {}", run.stderr);
}

#[test]
fn an_entity_that_changed_since_its_plan_is_planned_again_or_stays() {
    let table = crate::new_table();
    let options = options();
    for (id, name, is_strict, is_written, a) in [
        ("A", "b", false, true, "1"),
        ("B", "a", false, false, "3"),
        ("C", "b", true, false, "2"),
    ] {
        for (number, actor) in [(1, "amy"), (2, JOB)] {
            table.write(json!({"ID": id, "a": number, "Actor": actor}));
        }
        let entity = database::entity(id);
        let planned = table.block_on(plan(&table.store, &entity, &options)).unwrap();
        table.write(json!({"ID": id, name: 3, "Actor": "bob"}));
        let seen = planned.newest.filter(|_| is_strict);
        let applied = table.block_on(apply(&table.store, planned, seen, &options, None));
        let applied = applied.unwrap();
        assert_eq!(
            (applied.is_written, applied.plan.has_conflicts()),
            (is_written, !is_written),
            "{id}"
        );
        let item = &table.items_of(id)["v0"];
        assert_eq!([&item["a"]["N"], &item[name]["N"]], [&json!(a), &json!("3")], "{id}");
    }
}

#[test]
fn an_entity_that_others_keep_changing_stays() {
    let (table, options) = (crate::new_table(), options());
    for (number, actor) in [(1, "amy"), (2, JOB)] {
        Table::write(&table, json!({"ID": "A", "a": number, "Actor": actor}));
    }
    let planned = table.block_on(plan(&table.store, &database::entity("A"), &options));
    // Another client writes each time when the undo reads the clock, which is before each of its writes.
    let (store, runtime, writes) = (table.store.clone(), table.runtime.handle().clone(), AtomicU64::new(0));
    let clock = Clock::new(move || {
        let (store, runtime, number) = (store.clone(), runtime.clone(), writes.fetch_add(1, Ordering::Relaxed));
        let write = move || runtime.block_on(write(&store, json!({"ID": "A", "b": number, "Actor": "bob"})));
        thread::spawn(write).join().unwrap();
        since_epoch()
    });
    let store = table.store.clone().with_clock(clock);
    let applied = table
        .block_on(apply(&store, planned.unwrap(), None, &options, None))
        .unwrap();
    let reason = applied.plan.reason.unwrap_or_default();
    assert!(
        !applied.is_written && reason.contains("other clients keep changing it"),
        "{reason}"
    );
    let item = &table.items_of("A")["v0"];
    assert_eq!([&item["a"]["N"], &item["Actor"]["S"]], [&json!("2"), &json!("bob")]);
    let attempts = item["b"]["N"].as_str().unwrap().parse::<u64>().unwrap();
    assert!(attempts >= 2, "{attempts}");
}

#[test]
fn a_plan_is_carried_out_only_as_it_was_saved() {
    let (table, folder) = (crate::new_table(), tempfile::tempdir().unwrap());
    for (id, number, actor) in [("A", 1, "amy"), ("A", 2, JOB), ("B", 1, "amy"), ("B", 2, JOB)] {
        Table::write(&table, json!({"ID": id, "a": number, "Actor": actor}));
    }
    let path = folder.path().join("plan");
    let run = |options: &str| table.run(&format!("undo {options} {}", path.display()));
    assert_eq!(run(&format!("--actor {JOB} --dry-run --plan")).code, 0);
    let plan = std::fs::read_to_string(&path).unwrap();
    let (first, end) = (plan.lines().next().unwrap(), plan.lines().last().unwrap());
    for (edited, message) in [
        (plan.replacen("\"To\":1", "\"To\":5", 1), "was changed"),
        (plan.replacen("[2]", "[1,2]", 1), "was changed"),
        (plan.replacen("update", "none", 1), "was changed"),
        (plan.replace(first, "{\"ID\":\"C\",\"Action\":\"none\"}"), "was changed"),
        (plan.replace("leave", "overwrite"), "was changed"),
        (plan.replace(&format!("{first}\n"), ""), "was changed"),
        (plan.replace(&table.name, "Other"), "is for the table Other"),
        (format!("{plan}{end}\n"), "was changed"),
        (format!("{plan}{first}\n"), "was changed"),
        (plan.replace(&format!("{end}\n"), ""), "has no end"),
        (plan[..plan.len() / 2].to_owned(), "is no JSON"),
    ] {
        std::fs::write(&path, edited).unwrap();
        let run = run("--yes --mode inline --apply");
        assert!(run.code == 2 && run.stderr.contains(message), "{message}: {run:?}");
    }
    assert_eq!(table.items_of("A")["v0"]["a"]["N"], "2");
    std::fs::write(&path, &plan).unwrap();
    assert_eq!(run("--yes --mode inline --apply").lines[2]["Entities"], 2);
}
