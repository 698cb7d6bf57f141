//! `vzero admin prune` and `pin`. The unit tests of the plan have more rules.

use std::time::Duration;

use serde_json::{Value, json};
use shared::{
    domain::{Item, recorded_at::RecordedAt, version_item::VersionItem},
    dynamodb::put::put_version::PutOutcome,
};
use testkit::{
    command::{Run, members},
    table::Table,
};

use crate::{
    killed, latest, new_table,
    script::{self, script_tests},
    version, with_digits,
};

/// Writes versions 1 to `count` of the entity `E`.
pub(crate) fn versions(table: &Table, count: u64) {
    for number in 1..=count {
        table.write(json!({"ID": "E", "State": number}));
    }
}

fn ago(days: u64) -> Duration {
    shared::clock::since_epoch().saturating_sub(Duration::from_secs(days * 86_400))
}

/// Puts an entity whose versions were recorded this many days ago, `None` for an unknown time. The client's times are the same.
fn recorded(table: &Table, id: &str, days: &[Option<u64>]) {
    for (number, days) in (1..).zip(days) {
        for mut item in [latest(id, number), version(id, number)] {
            if let Some(days) = days {
                let time = RecordedAt::since_epoch(ago(*days));
                item["RecordedAt"] = json!({"S": time.to_string()});
                item["Timestamp"] = json!({"N": time.floor_millis().get().to_string()});
            }
            table.put(item);
        }
    }
}

/// Returns the numbers of the marked versions.
fn marked(table: &Table, id: &str) -> Vec<u64> {
    let items = table.items_of(id);
    let marked = items.iter().filter(|(_, item)| item.get("TTL").is_some());
    let mut numbers: Vec<_> = marked.map(|(key, _)| key[1..].parse().unwrap()).collect();
    numbers.sort_unstable();
    numbers
}

#[test]
fn pruned_versions_disappear_at_once_and_are_no_gap() {
    for digits in [1, 3] {
        let table = with_digits(digits);
        versions(&table, 12);
        let key = |number: u64| format!("v{number:0width$}", width = usize::from(digits));
        script::run(
            &table,
            r#"
            pin E 3 => = {"ID": "E", "Version": 3, "Pinned": true}
            prune E --keep 4 --dry-run => {"Floor": 9, "Marked": 7}
            history E --limit 100 => Version [12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1]
            @item E floor => ~ null
            prune E --keep 4 => {"Floor": 9, "Marked": 7, "Left": 1}
            history E => Version [12, 11, 10, 9, 3] => 0 nothing
            get E --version 8 => 3 error: version 8 of E was pruned: its history begins at version 9
            get E --version 3 => {"Attributes": {"State": 3}}
            lag E => = {"ID": "E", "Latest": 12, "Through": 12}
            audit E --all --lag 0 => 2
            audit --all --lag 0 => Entities [1]
            prune E --keep 100 => {"Floor": 9, "Marked": 0}
            "#,
        );
        // v0 and the pinned version are kept.
        assert_eq!(marked(&table, "E"), [1, 2, 4, 5, 6, 7, 8]);
        // Versions that DynamoDB deletes later are no gap, but missing versions above the floor are.
        for number in [1, 2, 4, 5, 6, 7, 8] {
            table.delete("E", &key(number));
        }
        let missing = key(10);
        script::run(
            &table,
            &r#"
            audit --all --lag 0 => Findings [{}]
            @delete E KEY
            audit E --lag 0 => Finding ["Gap", null] => From [10, null] => To [10, null] => 4
            history E => Version [12, 11, 9, 3] => 0 note: not in the history yet: 10
            "#
            .replace("KEY", &missing),
        );
    }
}

#[test]
fn pruning_by_age_keeps_the_version_of_every_time_since() {
    let table = new_table();
    recorded(&table, "E", &(0..12).rev().map(Some).collect::<Vec<_>>());
    // Recorded today, with a time of the client long ago, and long ago without such a time.
    recorded(&table, "Fresh", &[Some(0); 4]);
    recorded(&table, "Old", &[Some(400), Some(300), Some(200), Some(1)]);
    for (id, key) in ["v0", "v1", "v2", "v3", "v4"]
        .into_iter()
        .flat_map(|key| [("Fresh", key), ("Old", key)])
    {
        let mut item = table.items_of(id)[key].clone();
        item.as_object_mut().unwrap().remove("Timestamp");
        if id == "Fresh" {
            item["Time"] = json!({"S": "2020-11-01T20:04:00"});
        }
        table.put(item);
    }
    recorded(&table, "Undated", &[None; 3]);
    recorded(&table, "Mixed", &[None, None, Some(100), None, Some(0)]);
    let at = |hours: u64| RecordedAt::since_epoch(ago(0).saturating_sub(Duration::from_secs(hours * 3600)));
    // When the last five days began, the version of the day before was the latest.
    table.check(&format!(
        r#"
        prune E --older-than 5d => {{"Floor": 7, "Marked": 6}}
        get E --at {} => {{"Version": 10}}
        get E --at {} => {{"Version": 7}}
        get E --at {} => 3 error: it was pruned: history begins at version 7; read the oldest version that is left with --version 7
        prune Fresh --older-than 90d => {{"Floor": 1, "Marked": 0, "Undated": 0}}
        prune Old --older-than 90d => {{"Floor": 3, "Marked": 2, "Undated": 0}}
        prune Undated --older-than 0s => {{"Floor": 1, "Marked": 0, "Undated": 3}}
        prune Mixed --older-than 90d => {{"Floor": 3, "Marked": 2, "Undated": 1}}
        prune Undated --keep 1 => {{"Floor": 3, "Marked": 2, "Undated": 0}}
        prune E => 2 error: …
        prune E --keep 0 => 2 error: …
        prune E --keep 1 --older-than 1d => 2 error: …
        prune E --older-than '1 month' => 2 error: …
        prune E --older-than -1d => 2 error: …
        prune F --keep 1 => 3
        prune --all => 2
        prune E --all --keep 1 => 2
        prune --all --keep 1 --older-than 1d => 2
        prune --all --keep 1 --segments 0 => 2
        prune E --keep 1 --segments 2 => 2
        prune E --keep 1 --state x => 2
        prune --keep 1 => 2
        "#,
        at(36),
        at(5 * 24 - 1),
        at(24 * 8),
    ));
    assert_eq!((marked(&table, "Fresh"), marked(&table, "Old")), (vec![], vec![1, 2]));
}

const COUNTS: [&str; 7] = ["Entities", "Pruned", "Marked", "Left", "Undated", "Stopped", "Failed"];

fn counts(ran: &Run) -> Value {
    members(ran.lines.last().unwrap(), &COUNTS)
}

/// Fills a table: an old, a fresh, an undated, a pinned entity and one with a gap.
fn several(table: &Table) {
    recorded(table, "Old", &[Some(300), Some(200), Some(100), Some(50)]);
    recorded(table, "Fresh", &[Some(3), Some(2), Some(1)]);
    recorded(table, "Undated", &[None, None]);
    recorded(table, "Pinned", &[Some(300), Some(200), Some(100)]);
    table.json("pin Pinned 1", 0);
    recorded(table, "Gap", &[Some(300), Some(250), Some(200), Some(150)]);
    table.delete("Gap", "v3");
    // Neither has a latest item.
    table.put(json!({"PK": {"S": "Only"}, "SK": {"S": "Metadata"}}));
    table.put(version("Orphan", 1));
    recorded(table, "Once", &[Some(0)]);
}

#[test]
fn a_whole_table_is_pruned() {
    let table = new_table();
    table.check(r#"prune --all --keep 1 => {"Entities": 0, "Pruned": 0, "Marked": 0, "Left": 0, "Undated": 0, "Stopped": 0, "Failed": 0}"#);
    several(&table);
    let before = table.items();
    for segments in ["1", "4", "13"] {
        let ran = table.run(&format!("prune --all --keep 1 --dry-run --segments {segments}"));
        assert_eq!((ran.code, ran.lines.len(), ran.stderr.as_str()), (0, 1, ""), "{ran:?}");
        assert_eq!(counts(&ran), json!([6, 5, 9, 1, 0, 1, 0]));
        assert_eq!(members(&ran.lines[0], &["DryRun", "WriteUnits"]), json!([true, 0.0]));
        assert!(table.items() == before);
    }
    let arguments = "prune --all --older-than 90d --max-read-units 10000";
    let ran = table.run(arguments);
    assert_eq!((ran.code, ran.lines.len(), ran.stderr.as_str()), (0, 1, ""), "{ran:?}");
    assert_eq!(counts(&ran), json!([6, 3, 5, 1, 2, 1, 0]));
    let units = |name: &str| ran.lines[0][name].as_f64().unwrap();
    assert!(units("ReadUnits") > 1.0 && units("WriteUnits") >= 8.0, "{ran:?}");
    for (id, expected) in [
        ("Old", &[1, 2][..]),
        ("Fresh", &[]),
        ("Undated", &[]),
        ("Pinned", &[2]),
        ("Gap", &[1, 2]),
        ("Orphan", &[]),
        ("Once", &[]),
    ] {
        assert_eq!(marked(&table, id), expected, "{id}");
    }
    // A second run has nothing to do.
    script::run(
        &table,
        &format!(
            r#"
            @item Old floor => /Floor/N "3"
            @item Fresh floor => ~ null
            {arguments} => {{"Pruned": 0, "Marked": 0, "Left": 6, "Stopped": 1}}
            prune --all --older-than 90d --over-gaps --grace 1h => {{"Pruned": 1, "Marked": 0, "Stopped": 0}}
            @item Gap floor => /Floor/N "4"
            "#
        ),
    );
}

#[test]
fn one_entity_that_fails_does_not_stop_the_others() {
    if testkit::endpoint::is_about_one_table("one_entity_that_fails_does_not_stop_the_others") {
        return;
    }
    let table = new_table();
    several(&table);
    table.put(json!({"PK": {"S": "Hand"}, "SK": {"S": "v0"}, "State": {"S": "secret"}}));
    table.put(json!({"PK": {"S": "Word"}, "SK": {"S": "v0"}, "Latest": {"S": "secret"}}));
    // There is no room for a mark.
    let mut huge = version("Huge", 1);
    huge["A"] = json!({"S": "x".repeat(400 * 1024 - 23)});
    for item in [latest("Huge", 2), huge, version("Huge", 2)] {
        table.put(item);
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.json");
    let mut ran = table.run(&["prune", "--all", "--keep", "1", "--state", path.to_str().unwrap()]);
    assert_eq!(
        (ran.code, ran.stderr.as_str()),
        (4, "error: 3 entities could not be pruned\n"),
        "{ran:?}"
    );
    assert_eq!(counts(&ran), json!([9, 5, 9, 1, 0, 1, 3]));
    assert!(!ran.stdout.contains("secret") && !path.exists());
    ran.lines.sort_by_key(Value::to_string);
    assert_eq!(
        members(&ran.lines[1], &["ID", "Failed"]),
        json!(["Hand", "Latest is missing"])
    );
    assert!(
        ran.lines[2]["Failed"].as_str().unwrap().contains("larger than 400 KB"),
        "{ran:?}"
    );
    assert_eq!(
        members(&ran.lines[3], &["ID", "Failed"]),
        json!(["Word", "Latest is not a number"])
    );
    assert_eq!(marked(&table, "Old"), [1, 2, 3]);
}

#[test]
fn a_killed_run_of_a_whole_table_resumes() {
    let table = new_table();
    for entity in 0..12 {
        let days = [Some(300), Some(200), Some(100), Some(1)];
        recorded(&table, &format!("E{entity}"), &days);
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.json");
    let file = path.to_str().unwrap();
    let slowly = format!("prune --all --older-than 90d --segments 2 --max-read-units 15 --state {file}");
    // The state belongs to this run only.
    let check_others = |others: &[&str], said: &str| {
        let state = std::fs::read_to_string(&path).unwrap();
        for other in others {
            let ran = table.run(&format!("{other} --state {file}"));
            assert!(ran.code == 2 && ran.stderr.contains(said), "{other} {state} {ran:?}");
            assert_eq!(std::fs::read_to_string(&path).unwrap(), state);
        }
    };
    let mut is_changed = killed::changes_of(&path);
    let mut child = table.start(&slowly);
    while !is_changed() {
        assert!(child.try_wait().unwrap().is_none(), "it ended too early");
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let others = [
        "prune --all --older-than 91d",
        "prune --all --keep 1",
        "prune --all --older-than 90d --grace 1d",
        "prune --all --older-than 90d --over-gaps",
        "prune --all --older-than 90d --dry-run",
        "prune --all --older-than 90d --segments 3",
        "audit --all",
        "backfill --yes",
    ];
    check_others(&others, "the checkpoint belongs to another run: prune of ");
    let runs = killed::run_killed(|| table.start(&slowly), is_changed);
    assert!(runs.len() > 1, "it was killed once only");
    assert!(!path.exists());
    let last = runs.last().unwrap();
    let count = |name: &str| last.lines.last().unwrap()[name].as_u64().unwrap();
    assert_eq!(
        (last.code, ["Entities", "Undated", "Failed"].map(count)),
        (0, [12, 0, 0]),
        "{last:?}"
    );
    // Versions that a killed run marked but did not count were left by the next one.
    assert_eq!(count("Marked") + count("Left"), 24, "{last:?}");
    for entity in 0..12 {
        assert_eq!(marked(&table, &format!("E{entity}")), [1, 2]);
    }
    // A state that cannot be read.
    for state in ["nonsense", "{}", r#"{"Command": "prune", "Table": "T"}"#] {
        std::fs::write(&path, state).unwrap();
        check_others(&["prune --all --keep 1"], "error: ");
    }
}

script_tests! {
    fn gaps_grace_periods_and_pins();
}

#[test]
fn a_redelivered_pruned_version_is_already_recorded() {
    let table = new_table();
    versions(&table, 2);
    let first = table.items_of("E")["v1"].clone();
    let mut image: Value = first.clone();
    image["SK"] = json!({"S": "v0"});
    (image["Latest"], image["RecordedVersion"]) = (json!({"N": "1"}), json!({"N": "1"}));
    let redelivered = || {
        let image: Item = serde_json::from_value(image.clone()).unwrap();
        let made = VersionItem::from_image(image, table.store.digits()).unwrap();
        table.runtime.block_on(table.store.put_version(&made)).unwrap()
    };
    table.check("pin E 1 => 0");
    assert_eq!(redelivered(), PutOutcome::AlreadyRecorded);
    table.check("pin E 1 --unpin => 0\nprune E --keep 1 => 0");
    assert_eq!(redelivered(), PutOutcome::AlreadyRecorded);
    assert_eq!(marked(&table, "E"), [1]);
    // A put that does not read the floor would store a deleted version again: the audit reports it, and the next prune removes it.
    table.delete("E", "v1");
    assert_eq!(redelivered(), PutOutcome::Recorded);
    assert_eq!(table.items_of("E")["v1"], first);
    table.check(
        r#"
        audit E --lag 0 => Finding ["Unpruned", null] => 4
        prune E --keep 1 => {"Marked": 1}
        audit E --lag 0 => 0
        "#,
    );
}
