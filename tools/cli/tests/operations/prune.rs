//! `vzero admin prune` and `pin`.

use std::{path::Path, time::Duration};

use serde_json::{Value, json};
use shared::{
    domain::{Item, recorded_at::RecordedAt, version_item::VersionItem},
    dynamodb::put::put_version::PutOutcome,
};

use testkit::{
    command::{Arguments, Run, members},
    table::Table,
};

use crate::{latest, new_table, version, with_digits};

/// Writes versions 1 to `count`, one for each day, the last one today.
pub(crate) fn days(table: &Table, count: i64) {
    let now = i64::try_from(shared::clock::since_epoch().as_millis()).unwrap();
    for number in 1..=count {
        let time = now - (count - number) * 86_400_000;
        table.write(json!({"ID": "E", "State": number, "Timestamp": time}));
    }
}

fn days_ago(days: u64) -> RecordedAt {
    RecordedAt::since_epoch(shared::clock::since_epoch().saturating_sub(Duration::from_secs(days * 86_400)))
}

/// Puts an entity whose versions were recorded this many days ago, `None` for an unknown time.
fn recorded(table: &Table, id: &str, days: &[Option<u64>]) {
    for (number, days) in (1..).zip(days) {
        let (mut head, mut item) = (latest(id, number), version(id, number));
        for item in [&mut head, &mut item] {
            if let Some(days) = days {
                let time = days_ago(*days);
                item["RecordedAt"] = json!({"S": time.to_string()});
                item["Timestamp"] = json!({"N": time.floor_millis().get().to_string()});
            }
            table.put(item.clone());
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

pub(crate) fn line(table: &Table, arguments: &(impl Arguments + ?Sized)) -> Value {
    let arguments = arguments.words();
    let ran = table.run(&arguments);
    assert_eq!((ran.code, ran.lines.len()), (0, 1), "{arguments:?} {ran:?}");
    ran.lines[0].clone()
}

#[test]
fn pruned_versions_disappear_at_once_and_are_no_gap() {
    for digits in [1, 3] {
        let table = with_digits(digits);
        days(&table, 12);
        let key = |number: u64| format!("v{number:0width$}", width = usize::from(digits));
        table.check(
            r#"
            pin E 3 => = {"ID": "E", "Version": 3, "Pinned": true}
            prune E --keep 4 --dry-run => {"Floor": 9, "Marked": 7}
            history E --limit 100 => Version [12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1]
            "#,
        );
        assert!(!table.items_of("E").contains_key("floor"));

        let pruned = line(&table, "prune E --keep 4");
        assert_eq!(members(&pruned, &["Floor", "Marked", "Left"]), json!([9, 7, 1]));
        table.check(
            r#"
            history E => Version [12, 11, 10, 9, 3] => 0 nothing
            get E --version 8 => 3 error: version 8 of E was pruned: its history begins at version 9
            lag E => = {"ID": "E", "Latest": 12, "Through": 12}
            audit E --all --lag 0 => 2
            audit --all --lag 0 => Entities [1]
            "#,
        );
        let three = line(&table, "get E --version 3");
        let members: Vec<_> = three["Attributes"].as_object().unwrap().keys().collect();
        assert_eq!(members, ["State", "Timestamp"]);
        // Versions that DynamoDB deletes later are no gap, but missing versions above the floor are.
        for number in [1, 2, 4, 5, 6, 7, 8] {
            let items = table.items_of("E");
            let ttl = &items[&key(number)]["TTL"]["N"];
            assert_eq!(ttl.as_str().unwrap(), pruned["Expires"].to_string(), "{number}");
            table.delete("E", &key(number));
        }
        table.check("audit --all --lag 0 => Findings [{}]");
        table.delete("E", &key(10));
        let ran = table.run("audit E --lag 0");
        let gap = json!({"ID": "E", "Finding": "Gap", "From": 10, "To": 10});
        assert_eq!((ran.code, &ran.lines[0]), (4, &gap));
        table.check("history E => Version [12, 11, 9, 3] => 0 note: not in the history yet: 10");
        // v0 and the pinned version are kept.
        let items = table.items_of("E");
        assert!(items["v0"].get("TTL").is_none() && items[&key(3)].get("TTL").is_none());
        // A second run has nothing to do.
        table.check(r#"prune E --keep 100 => {"Floor": 9, "Marked": 0}"#);
    }
}

#[test]
fn pruning_by_age_keeps_the_version_of_every_time_since() {
    let table = new_table();
    recorded(&table, "E", &(0..12).rev().map(Some).collect::<Vec<_>>());
    let ago = |hours: i64| {
        let now = i64::try_from(shared::clock::since_epoch().as_secs()).unwrap();
        jiff::Timestamp::from_second(now - hours * 3600).unwrap()
    };
    // When the last five days began, the version of the day before was the latest.
    table.check(&format!(
        r#"
        prune E --older-than 5d => {{"Floor": 7, "Marked": 6}}
        get E --at {} => {{"Version": 10}}
        get E --at {} => {{"Version": 7}}
        get E --at {} => 3 error: it was pruned: history begins at version 7; read the oldest version that is left with --version 7
        prune E => 2 error: …
        prune E --keep 0 => 2 error: …
        prune E --keep 1 --older-than 1d => 2 error: …
        prune E --older-than '1 month' => 2 error: …
        prune E --older-than -1d => 2 error: …
        prune F --keep 1 => 3
        "#,
        ago(36),
        ago(5 * 24 - 1),
        ago(24 * 8),
    ));
}

#[test]
fn the_age_of_a_version_is_not_the_time_of_the_client() {
    let table = new_table();
    // Recorded today, with a time that the first update set long ago.
    recorded(&table, "Fresh", &[Some(0); 4]);
    for key in ["v0", "v1", "v2", "v3", "v4"] {
        let mut item = table.items_of("Fresh")[key].clone();
        item["Time"] = json!({"S": "2020-11-01T20:04:00"});
        item["Timestamp"] = json!({"N": "1604261040000"});
        table.put(item);
    }
    table.check(r#"prune Fresh --older-than 90d => {"Floor": 1, "Marked": 0, "Undated": 0}"#);
    assert_eq!(marked(&table, "Fresh"), [0; 0]);
    // Recorded long ago, without a time of the client.
    recorded(&table, "Old", &[Some(400), Some(300), Some(200), Some(1)]);
    for key in ["v0", "v1", "v2", "v3", "v4"] {
        let mut item = table.items_of("Old")[key].clone();
        item.as_object_mut().unwrap().remove("Timestamp");
        table.put(item);
    }
    table.check(r#"prune Old --older-than 90d => {"Floor": 3, "Marked": 2, "Undated": 0}"#);
    assert_eq!(marked(&table, "Old"), [1, 2]);
}

#[test]
fn versions_of_an_unknown_time_are_kept_and_counted() {
    let table = new_table();
    recorded(&table, "Undated", &[None; 3]);
    recorded(&table, "Mixed", &[None, None, Some(100), None, Some(0)]);
    table.check(
        r#"
        prune Undated --older-than 0s => {"Floor": 1, "Marked": 0, "Undated": 3}
        prune Mixed --older-than 90d => {"Floor": 3, "Marked": 2, "Undated": 1}
        prune Undated --keep 1 => {"Floor": 3, "Marked": 2, "Undated": 0}
        "#,
    );
}

fn summary(ran: &Run) -> &Value {
    let last = ran.lines.last().unwrap();
    assert!(last.get("Entities").is_some(), "{ran:?}");
    last
}

const COUNTS: [&str; 7] = ["Entities", "Pruned", "Marked", "Left", "Undated", "Stopped", "Failed"];

/// Fills a table: an old, a fresh, an undated, a pinned entity and one with a gap.
fn several(table: &Table) {
    recorded(table, "Old", &[Some(300), Some(200), Some(100), Some(50)]);
    recorded(table, "Fresh", &[Some(3), Some(2), Some(1)]);
    recorded(table, "Undated", &[None, None]);
    recorded(table, "Pinned", &[Some(300), Some(200), Some(100)]);
    line(table, "pin Pinned 1");
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
    several(&table);
    let before = table.items();
    for segments in ["1", "4", "13"] {
        let ran = table.run(&format!("prune --all --keep 1 --dry-run --segments {segments}"));
        assert_eq!((ran.code, ran.lines.len(), ran.stderr.as_str()), (0, 1, ""), "{ran:?}");
        assert_eq!(members(summary(&ran), &COUNTS), json!([6, 5, 9, 1, 0, 1, 0]));
        assert_eq!(summary(&ran)["DryRun"], true);
        assert_eq!(
            (table.items() == before, &summary(&ran)["WriteUnits"]),
            (true, &json!(0.0))
        );
    }
    let arguments = "prune --all --older-than 90d --max-read-units 10000";
    let ran = table.run(&arguments);
    assert_eq!((ran.code, ran.lines.len(), ran.stderr.as_str()), (0, 1, ""), "{ran:?}");
    assert_eq!(members(summary(&ran), &COUNTS), json!([6, 3, 5, 1, 2, 1, 0]));
    assert!(summary(&ran)["ReadUnits"].as_f64().unwrap() > 1.0, "{ran:?}");
    assert!(summary(&ran)["WriteUnits"].as_f64().unwrap() >= 8.0, "{ran:?}");
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
    assert_eq!(table.items_of("Old")["floor"]["Floor"]["N"], "3");
    assert!(!table.items_of("Fresh").contains_key("floor"));
    // A second run has nothing to do.
    let ran = table.run(&arguments);
    assert_eq!(
        members(summary(&ran), &["Pruned", "Marked", "Left", "Stopped"]),
        json!([0, 0, 6, 1])
    );
    let ran = table.run("prune --all --older-than 90d --over-gaps --grace 1h");
    assert_eq!(
        members(summary(&ran), &["Pruned", "Marked", "Stopped"]),
        json!([1, 0, 0])
    );
    assert_eq!(table.items_of("Gap")["floor"]["Floor"]["N"], "4");
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
    table.put(latest("Huge", 2));
    let mut huge = version("Huge", 1);
    huge["A"] = json!({"S": "x".repeat(400 * 1024 - 23)});
    table.put(huge);
    table.put(version("Huge", 2));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.json");
    let ran = table.run(&["prune", "--all", "--keep", "1", "--state", path.to_str().unwrap()]);
    assert_eq!(
        (ran.code, ran.stderr.as_str()),
        (4, "error: 3 entities could not be pruned\n"),
        "{ran:?}"
    );
    let mut failed: Vec<_> = ran.lines[..3]
        .iter()
        .map(|line| members(line, &["ID", "Failed"]))
        .collect();
    failed.sort_by_key(Value::to_string);
    assert_eq!(failed[0], json!(["Hand", "Latest is missing"]));
    assert!(
        failed[1][1].as_str().unwrap().contains("larger than 400 KB"),
        "{failed:?}"
    );
    assert_eq!(failed[2], json!(["Word", "Latest is not a number"]));
    assert!(!ran.stdout.contains("secret"));
    assert_eq!(members(summary(&ran), &COUNTS), json!([9, 5, 9, 1, 0, 1, 3]));
    assert_eq!(marked(&table, "Old"), [1, 2, 3]);
    assert!(!path.exists());
}

#[test]
fn invalid_arguments_of_a_whole_table() {
    new_table().check(
        r#"
        prune --all => 2
        prune E --all --keep 1 => 2
        prune --all --keep 1 --older-than 1d => 2
        prune --all --keep 1 --segments 0 => 2
        prune E --keep 1 --segments 2 => 2
        prune E --keep 1 --state x => 2
        prune --keep 1 => 2
        prune --all --keep 1 => {"Entities": 0, "Pruned": 0, "Marked": 0, "Left": 0, "Undated": 0, "Stopped": 0, "Failed": 0}
        "#,
    );
}

/// Runs the command and kills it as soon as the state file changes. Returns `true` if it ended before.
pub(crate) fn run_until_saved(table: &Table, arguments: &str, path: &Path) -> (bool, Run) {
    let before = std::fs::read_to_string(path).ok();
    let mut child = table.start(arguments);
    let is_ended = loop {
        if child.try_wait().unwrap().is_some() {
            break true;
        }
        let now = std::fs::read_to_string(path).ok();
        if now.is_some() && now != before {
            child.kill().unwrap();
            break false;
        }
        std::thread::yield_now();
    };
    (is_ended, Run::wait(child))
}

#[test]
fn a_killed_run_of_a_whole_table_resumes() {
    let table = new_table();
    for entity in 0..12 {
        recorded(
            &table,
            &format!("E{entity}"),
            &[Some(300), Some(200), Some(100), Some(1)],
        );
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.json");
    let file = path.to_str().unwrap();
    let run = format!("prune --all --older-than 90d --segments 2 --state {file}");
    let slowly = format!("{run} --max-read-units 15");
    let mut kills = 0;
    let last = loop {
        let (is_ended, ran) = run_until_saved(&table, &slowly, &path);
        if is_ended {
            break ran;
        }
        if kills == 0 {
            // The state belongs to this run only.
            let state = std::fs::read_to_string(&path).unwrap();
            for other in [
                "prune --all --older-than 91d",
                "prune --all --keep 1",
                "prune --all --older-than 90d --grace 1d",
                "prune --all --older-than 90d --over-gaps",
                "prune --all --older-than 90d --dry-run",
                "prune --all --older-than 90d --segments 3",
                "audit --all",
                "backfill --yes",
            ] {
                let ran = table.run(&format!("{other} --state {file}"));
                let said = "the checkpoint belongs to another run: prune of ";
                assert!(ran.code == 2 && ran.stderr.contains(said), "{other} {ran:?}");
                assert_eq!(std::fs::read_to_string(&path).unwrap(), state);
            }
        }
        kills += 1;
        assert!(kills < 100, "it gets nowhere");
    };
    assert!(kills > 1, "it was killed {kills} times only");
    assert!(!path.exists());
    assert_eq!(
        (last.code, members(summary(&last), &["Entities", "Undated", "Failed"])),
        (0, json!([12, 0, 0])),
        "{last:?}"
    );
    // Versions that a killed run marked but did not count were left by the next one.
    let count = |name: &str| summary(&last)[name].as_u64().unwrap();
    assert_eq!(count("Marked") + count("Left"), 24, "{last:?}");
    for entity in 0..12 {
        assert_eq!(marked(&table, &format!("E{entity}")), [1, 2]);
    }
}

#[test]
fn a_state_that_cannot_be_read_is_an_error() {
    let table = new_table();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.json");
    for state in ["nonsense", "{}", r#"{"Command": "prune", "Table": "T"}"#] {
        std::fs::write(&path, state).unwrap();
        let ran = table.run(&["prune", "--all", "--keep", "1", "--state", path.to_str().unwrap()]);
        assert_eq!(ran.code, 2, "{state} {ran:?}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), state);
    }
}

#[test]
fn a_gap_stops_pruning_without_over_gaps() {
    let table = new_table();
    days(&table, 6);
    table.delete("E", "v3");
    // The latest version is never pruned.
    table.check(
        r#"
        prune E --keep 1 => {"Floor": 3, "Marked": 2} => 0 note: version 3 is missing…
        audit E --lag 0 => 4
        prune E --keep 1 --over-gaps => {"Floor": 6, "Marked": 2}
        audit E --lag 0 => 0
        get E --version 6 => {"Version": 6}
        "#,
    );
}

#[test]
fn within_the_grace_period_a_marked_version_can_be_read_and_pinned() {
    let table = new_table();
    days(&table, 4);
    // A prune without grace period keeps existing marks. An expired or missing version cannot be pinned.
    table.check(
        r#"
        prune E --keep 1 --grace 1h => {"Floor": 4}
        history E => Version [4, 3, 2, 1]
        pin E 2 => {"Pinned": true}
        prune E --keep 1 => {"Marked": 0}
        history E => Version [4, 3, 2, 1]
        audit E --lag 0 => 0
        pin E 2 --unpin => {"Pinned": false} => 0 note: it is below the floor: the next prune marks it
        audit E --lag 0 => Finding ["Unpruned", null] => From [2, null] => To [2, null] => 4
        prune E --keep 1 => {"Marked": 1}
        history E => Version [4, 3, 1]
        pin E 2 => 3
        pin E 9 => 3
        pin E 9 --unpin => 3
        pin E 0 => 2
        "#,
    );
    assert!(!table.items_of("E").contains_key("v9"));
}

#[test]
fn a_redelivered_pruned_version_is_already_recorded() {
    let table = new_table();
    days(&table, 2);
    let first = table.items_of("E")["v1"].clone();
    let mut image: Value = first.clone();
    image["SK"] = json!({"S": "v0"});
    image["Latest"] = json!({"N": "1"});
    image["RecordedVersion"] = json!({"N": "1"});
    let redelivered = || {
        let image: Item = serde_json::from_value(image.clone()).unwrap();
        let made = VersionItem::from_image(image, table.store.digits()).unwrap();
        table.runtime.block_on(table.store.put_version(&made)).unwrap()
    };
    line(&table, "pin E 1");
    assert_eq!(redelivered(), PutOutcome::AlreadyRecorded);
    table.run("pin E 1 --unpin");
    line(&table, "prune E --keep 1");
    assert_eq!(redelivered(), PutOutcome::AlreadyRecorded);
    assert!(table.items_of("E")["v1"].get("TTL").is_some());
    // A put that does not read the floor would store a deleted version again: the audit reports it, and the next prune removes it.
    table.delete("E", "v1");
    assert_eq!(redelivered(), PutOutcome::Recorded);
    assert_eq!(table.items_of("E")["v1"], first);
    let ran = table.run("audit E --lag 0");
    assert_eq!((ran.code, &ran.lines[0]["Finding"]), (4, &json!("Unpruned")));
    assert_eq!(line(&table, "prune E --keep 1")["Marked"], 1);
    assert_eq!(table.run("audit E --lag 0").code, 0);
}

#[test]
fn an_expired_state_is_not_listed() {
    let table = new_table();
    for (day, ttl) in [(1, None), (2, Some("9999999999")), (3, Some("1")), (4, Some("1"))] {
        let mut state = json!({"PK": {"S": "E"}, "SK": {"S": format!("2020-01-0{day}T00:00:00")}});
        if let Some(ttl) = ttl {
            state["TTL"] = json!({"N": ttl});
        }
        table.put(state);
    }
    table.check(
        r#"
        state latest E => {"Time": "2020-01-02T00:00:00"}
        state list E => Time ["2020-01-01T00:00:00", "2020-01-02T00:00:00"]
        "#,
    );
    table.delete("E", "2020-01-01T00:00:00");
    table.delete("E", "2020-01-02T00:00:00");
    table.check("state latest E => 3");
}
