//! `vzero admin migrate`: the history of a table with data is moved to its own table, while clients write and read.

use std::time::Duration;

use serde_json::{Value, json};
use shared::{
    domain::{AttributeValue, Item, marks::unmarked, version::Version, version_item::VersionItem},
    dynamodb::{
        HistoryTable, Store,
        maintain::{move_history::MoveOutcome, rate_limit::RateLimiter},
        put::put_version::PutOutcome,
        read::table_config::LayoutError,
    },
};
use testkit::{database, table::Table};

use crate::{new_table, with_digits};

const ENTITIES: [&str; 3] = ["A", "B", "C"];

/// Writes versions whose states have attributes with the names of those that a history table uses, and that are nested as deeply
/// as DynamoDB allows.
fn fill(table: &Table) {
    let deep = (1..31).fold(json!("x"), |inner, _| json!([inner]));
    for (number, id) in ENTITIES.iter().enumerate() {
        for version in 0..12 {
            let update = json!({
                "ID": id, "n": version, "Image": {"n": number, "Image": {}}, "ImageJson": "{}", "Deep": deep.clone(),
            });
            table.write(update);
        }
    }
    table.json(&["pin", "A", "2"], 0);
    table.json(&["prune", "A", "--keep", "9", "--grace", "9d"], 0);
    table.json(&["metadata", "A", "--set", "Name=Equipment-001"], 0);
    let image = json!({"PK": {"S": "B"}, "SK": {"S": "v0"}, "Latest": {"N": "99"}});
    table.quarantine("B", "4200", "Conflict", &image);
    table.write(json!({"ID": "Gone"}));
    table.json(&["purge", "Gone", "--yes", "--wait", "0s"], 0);
}

/// Deploys the layout with a history table, and returns the store as a writer uses it.
fn deploy(table: &Table) -> Store {
    let name = database::history_of(&table.name);
    let client = &table.client;
    table
        .runtime
        .block_on(testkit::table::create_history(client, &name))
        .unwrap();
    let history = HistoryTable {
        name,
        is_migrating: true,
    };
    let mut store = table.store.clone().with_history(Some(history));
    let is_migrating = table.runtime.block_on(store.claim_layout()).unwrap();
    store.set_migrating(is_migrating);
    store
}

/// Returns the keys of a table's items without its layout and its owner, as `"{PK} {SK}"`.
fn keys(table: &Table, name: &str) -> Vec<String> {
    let items = table.runtime.block_on(database::items(&table.client, name));
    let key = |item: &Value, key: &str| item[key]["S"].as_str().unwrap().to_owned();
    let mut keys: Vec<_> = items
        .iter()
        .map(|item| format!("{} {}", key(item, "PK"), key(item, "SK")))
        .collect();
    keys.retain(|key| !["#vzero config", "#vzero owner"].contains(&key.as_str()));
    keys.sort();
    keys
}

/// Returns what users see of the entities.
fn shown(table: &Table) -> Vec<Vec<Value>> {
    let mut shown = Vec::new();
    for id in ENTITIES {
        for arguments in [
            &["history", id][..],
            &["history", id, "--oldest-first", "--limit", "3"],
            &["get", id],
            &["get", id, "--version", "7"],
            &["diff", id, "5", "6"],
            &["items", id],
            &["quarantine", id],
        ] {
            shown.push(table.run(arguments).lines);
        }
    }
    shown
}

/// Audits the table: nothing but the record in quarantine is found.
fn assert_sound(table: &Table) {
    let audited = table.run(&["audit", "--all", "--lag", "0"]);
    let summary = audited.lines.last().map(|summary| summary["Findings"].clone());
    assert_eq!(summary, Some(json!({"Quarantined": 1})), "{audited:?}");
    assert_eq!(audited.lines.last().unwrap()["Entities"], 3, "{audited:?}");
}

fn is_of_history(key: &str) -> bool {
    let sort_key = key.split_once(' ').unwrap().1;
    sort_key != "v0"
        && (sort_key.starts_with('v') || ["floor", "purged"].contains(&sort_key) || key.contains("quarantine#"))
}

#[test]
fn an_audit_during_a_migration_finds_the_same() {
    let table = new_table();
    if table.store.has_own_history() {
        return;
    }
    super::audit::wrong(&table);
    let audited = || {
        let mut audited = table.run(&["audit", "--all", "--lag", "0"]);
        let summary = audited.lines.pop().unwrap();
        audited.lines.sort_by_key(Value::to_string);
        (audited.lines, summary["Entities"].clone())
    };
    let before = audited();
    let items = keys(&table, &table.name);
    let history: Vec<_> = items.iter().filter(|key| is_of_history(key)).collect();
    let store = deploy(&table);
    assert_eq!(audited(), before);
    // A part of each history, and at the end all of it.
    for part in 0..3 {
        for key in history.iter().skip(part).step_by(3) {
            let (id, sort_key) = key.split_once(' ').unwrap();
            let moved = table.runtime.block_on(async {
                let item = store.get(&database::entity(id), sort_key, true).await.unwrap();
                store.move_to_history(item.unwrap(), &RateLimiter::unlimited()).await
            });
            assert_eq!(moved.unwrap(), MoveOutcome::Moved, "{key}");
        }
        assert_eq!(audited(), before, "part {part}");
    }
}

#[test]
fn a_killed_migration_resumes_while_clients_write_and_read() {
    for digits in [1, 10] {
        let table = with_digits(digits);
        if table.store.has_own_history() {
            return;
        }
        fill(&table);
        let before = shown(&table);
        let items = keys(&table, &table.name);
        let moved: Vec<_> = items.iter().filter(|key| is_of_history(key)).cloned().collect();
        assert_eq!(moved.len(), 36 + 3, "{moved:?}");
        let early = table.run(&["migrate"]);
        assert_eq!(early.code, 2, "{}", early.stderr);
        assert!(early.stderr.contains("HistoryTable=own"), "{}", early.stderr);

        let store = deploy(&table);
        assert!(store.is_migrating());
        assert_eq!(shown(&table), before);
        assert_sound(&table);
        for refused in [
            &["purge", "A", "--yes"][..],
            &["prune", "A", "--keep", "1"],
            &["pin", "A", "3"],
        ] {
            let ran = table.run(refused);
            assert_eq!(ran.code, 4, "{}", ran.stderr);
            assert!(ran.stderr.contains("run `vzero admin migrate` first"), "{}", ran.stderr);
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.json");
        let run = [
            "migrate",
            "--wait",
            "0s",
            "--segments",
            "2",
            "--state",
            path.to_str().unwrap(),
        ];
        let slowly = [&run[..], &["--max-write-units", "10"]].concat();
        let mut kills = 0;
        let last = loop {
            if let Some(ended) = super::prune::run_until_saved(&table, &slowly, &path) {
                break ended;
            }
            kills += 1;
            for (number, (now, before)) in shown(&table).iter().zip(&before).enumerate() {
                assert_eq!(now, before, "command {number} after {kills} kills");
            }
            assert_sound(&table);
            if kills > 2 {
                break table.run(&run);
            }
        };
        assert!(kills > 0, "{last:?}");
        assert_eq!(last.code, 0, "{last:?}");
        assert_eq!(last.lines[0]["Outcome"], "Finished");
        assert_eq!(shown(&table), before);
        let rest: Vec<_> = items.iter().filter(|key| !is_of_history(key)).cloned().collect();
        assert_eq!(keys(&table, &table.name), rest);
        assert_eq!(keys(&table, store.history_table()), moved);
        let pinned = table.run(&["pin", "A", "2"]);
        assert_eq!(pinned.lines[0]["Pinned"], true);

        // Only writers of the new layout start.
        let earlier = table.runtime.block_on(table.store.claim_layout());
        assert!(matches!(earlier, Err(LayoutError::History { .. })), "{earlier:?}");
        assert_eq!(table.runtime.block_on(store.claim_layout()), Ok(false));
        assert_eq!(table.json(&["migrate", "--wait", "0s"], 0)["Moved"], 0);
    }
}

#[test]
fn writes_during_a_migration_continue_both_parts_of_a_history() {
    let table = new_table();
    if table.store.has_own_history() {
        return;
    }
    fill(&table);
    let store = deploy(&table);
    // A writer of each layout, as during a deployment.
    for (number, store) in (0..).zip([&store, &table.store, &store]) {
        let update = json!({"ID": "A", "n": 100 + number});
        assert_eq!(
            table.runtime.block_on(testkit::table::write(store, update)),
            13 + number
        );
    }
    // stream-fn stores a version again, without its marks.
    let second = store.digits().version_key(Version::new(2).unwrap());
    let again = table.runtime.block_on(async {
        let item = store.get(&database::entity("A"), &second, true).await.unwrap().unwrap();
        let mut image = unmarked(&item);
        for name in ["Latest", "RecordedVersion"] {
            image.insert(name.to_owned(), AttributeValue::N("2".to_owned()));
        }
        image.insert("SK".to_owned(), AttributeValue::S("v0".to_owned()));
        let version = VersionItem::from_image(image, store.digits()).unwrap();
        store.put_version(&version).await.unwrap()
    });
    assert_eq!(again, PutOutcome::Recorded);
    let numbers = |table: &Table| -> Vec<_> {
        let lines = table.run(&["history", "A"]).lines;
        lines.iter().map(|line| line["Version"].as_u64().unwrap()).collect()
    };
    assert_eq!(numbers(&table), (1..=15).rev().collect::<Vec<_>>());
    assert_eq!(table.json(&["migrate", "--wait", "0s"], 0)["Moved"], 39 + 1);
    assert_eq!(numbers(&table), (1..=15).rev().collect::<Vec<_>>());
    let marks = |number: u64| {
        let history = table
            .runtime
            .block_on(database::items(&table.client, store.history_table()));
        let version = history
            .into_iter()
            .find(|item| item["SK"]["S"] == format!("v{number}") && item["PK"]["S"] == "A");
        let version = version.unwrap();
        (version.get("Pinned").is_some(), version.get("TTL").is_some())
    };
    assert_eq!([1, 2, 4].map(marks), [(false, true), (true, false), (false, false)]);
    assert_sound(&table);
}

#[test]
fn a_different_version_in_the_history_table_is_not_overwritten() {
    let table = new_table();
    if table.store.has_own_history() {
        return;
    }
    fill(&table);
    let store = deploy(&table);
    let other = json!({"PK": {"S": "C"}, "SK": {"S": "v5"}, "Image": {"M": {"n": {"S": "another"}}}});
    table
        .runtime
        .block_on(database::put_into(&table.client, store.history_table(), other));
    let ran = table.run(&["migrate", "--wait", "0s"]);
    assert_eq!(ran.code, 4, "{ran:?}");
    assert_eq!(
        ran.lines[0],
        json!({"Key": {"PK": "C", "SK": "v5"}, "Refused": "the history table has a different item under its key"})
    );
    assert_eq!(
        (&ran.lines[1]["Outcome"], &ran.lines[1]["Refused"]),
        (&json!("Incomplete"), &json!(1))
    );
    assert!(keys(&table, &table.name).contains(&"C v5".to_owned()));
    assert!(table.runtime.block_on(store.claim_layout()).unwrap());
}

#[test]
fn a_version_in_parts_is_moved_with_its_parts_and_marks() {
    let table = new_table();
    if table.store.has_own_history() {
        return;
    }
    // Bytes that do not compress.
    let next = |state: &u64| {
        Some(
            (state ^ (state << 13))
                .rotate_left(17)
                .wrapping_mul(0x9E37_79B9_7F4A_7C15),
        )
    };
    let states = std::iter::successors(Some(7), next);
    let bytes: Vec<u8> = states.flat_map(u64::to_be_bytes).take(409_500).collect();
    let entity = database::entity("Large");
    let read = |store: &Store| {
        let version = table.runtime.block_on(store.get(&entity, "v1", true));
        version.unwrap().unwrap()
    };
    let key = |sort_key: &str| format!("Large {sort_key}");
    table.runtime.block_on(async {
        let latest = json!({"PK": {"S": "Large"}, "SK": {"S": "v0"}, "Latest": {"N": "1"}});
        let mut latest: Item = serde_json::from_value(latest).unwrap();
        latest.insert("A".to_owned(), AttributeValue::B(bytes));
        let latest = serde_json::to_value(latest).unwrap();
        database::put_into(&table.client, &table.name, latest).await;
        assert_eq!(database::put_version(&table.store, &entity).await, PutOutcome::Recorded);
        let expires = table.store.clock().now() + Duration::from_secs(3600);
        let first = Version::FIRST;
        assert!(table.store.mark_version(&entity, first, expires).await.unwrap());
    });
    let before = read(&table.store);
    assert!(before.contains_key("TTL"));
    assert_eq!(keys(&table, &table.name), ["part#v1#2", "v0", "v1"].map(key));
    let store = deploy(&table);
    assert!(read(&store) == before);
    assert_eq!(table.json(&["migrate", "--wait", "0s"], 0)["Outcome"], "Finished");
    assert_eq!(keys(&table, &table.name), [key("v0")]);
    assert_eq!(keys(&table, store.history_table()), ["part#v1#2", "v1"].map(key));
    assert!(read(&store) == before);
    let history = database::items(&table.client, store.history_table());
    let mut history = table.runtime.block_on(history);
    history.retain(|item| item["PK"]["S"] != "#vzero");
    assert!(history.iter().all(|item| item["TTL"] == history[0]["TTL"]));
}
