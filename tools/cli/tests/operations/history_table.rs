//! `vzero admin table adopt` with a history table: history beside the latest items is moved.

use std::time::Duration;

use operations::prune::requests::{Mark, mark_version};
use serde_json::{Value, json};
use shared::{
    domain::version::Version,
    dynamodb::{Store, put::put_version::PutOutcome, read::layout_error::LayoutError},
};
use testkit::{database, hostile::incompressible, table::Table};

use crate::new_table;

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
    table.json("pin A 2", 0);
    table.json("prune A --keep 9 --grace 9d", 0);
    table.json("metadata A --set Name=Equipment-001", 0);
    let image = json!({"PK": {"S": "B"}, "SK": {"S": "v0"}, "Latest": {"N": "99"}});
    table.quarantine("B", "4200", "Conflict", &image);
    table.write(json!({"ID": "Gone"}));
    table.json("purge Gone --yes --wait 0s", 0);
}

/// Creates a history table, and returns the store of functions that are deployed with it.
fn deploy(table: &Table) -> Store {
    let name = database::history_of(&table.name);
    let create = testkit::table::create_history(&table.client, &name);
    table.runtime.block_on(create).unwrap();
    table.store.clone().with_history(Some(name))
}

fn claim(table: &Table, store: &Store) -> Result<(), LayoutError> {
    table.runtime.block_on(store.claim_layout())
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
    let commands = "history ID; history ID --oldest-first --limit 3; get ID; get ID --version 7; diff ID 5 6; items ID; quarantine ID";
    let of_entity = |id: &str| {
        commands
            .split("; ")
            .map(|command| table.run(&command.replace("ID", id)).lines)
            .collect::<Vec<_>>()
    };
    ENTITIES.into_iter().flat_map(of_entity).collect()
}

/// Audits the table: nothing but the record in quarantine is found.
fn assert_sound(table: &Table) {
    let audited = table.run("audit --all --lag 0");
    let summary = audited.lines.last().map(|summary| summary["Findings"].clone());
    assert_eq!(summary, Some(json!({"Quarantined": 1})), "{audited:?}");
    assert_eq!(audited.lines.last().unwrap()["Entities"], 3, "{audited:?}");
}

fn put(table: &Table, name: &str, item: Value) {
    table.runtime.block_on(database::put_into(&table.client, name, item));
}

#[test]
fn history_beside_the_latest_items_is_moved() {
    let table = new_table();
    if table.store.has_own_history() {
        return;
    }
    fill(&table);
    let (before, all) = (shown(&table), keys(&table, &table.name));
    let store = deploy(&table);
    let history = store.history_table().to_owned();
    // Until the move, neither functions with the history table nor those before the deployment lose anything.
    assert!(matches!(claim(&table, &store), Err(LayoutError::History { .. })));
    assert_eq!(claim(&table, &table.store), Ok(()));

    // Nothing is deleted before all of it is copied.
    let other = json!({"PK": {"S": "C"}, "SK": {"S": "v5"}, "Image": {"M": {"n": {"S": "another"}}}});
    put(&table, &history, other);
    let adopt = format!("admin table adopt --history-table {history}");
    let refused = table.run(&adopt);
    assert_eq!(refused.code, 4, "{refused:?}");
    assert_eq!(
        (keys(&table, &table.name), claim(&table, &table.store)),
        (all.clone(), Ok(()))
    );
    table
        .runtime
        .block_on(database::delete_item(&table.client, &history, "C", "v5"));

    let moved = table.json(&adopt, 0);
    let stays = |key: &String| [" v0", " Metadata"].iter().any(|stays| key.ends_with(stays));
    let (latest, versions): (Vec<_>, Vec<_>) = all.into_iter().partition(stays);
    assert_eq!(moved["Copied"], json!(versions.len()));
    assert_eq!((keys(&table, &table.name), keys(&table, &history)), (latest, versions));
    assert_eq!(shown(&table), before);
    assert_sound(&table);
    assert_eq!(claim(&table, &store), Ok(()));
    assert!(matches!(claim(&table, &table.store), Err(LayoutError::History { .. })));

    // A function of the earlier deployment ended later.
    let late = json!({"PK": {"S": "A"}, "SK": {"S": "v13"}, "n": {"N": "13"}});
    put(&table, &table.name, late);
    table.json(&adopt, 0);
    assert!(keys(&table, &history).contains(&"A v13".to_owned()));
    assert!(!keys(&table, &table.name).contains(&"A v13".to_owned()));
}

#[test]
fn a_version_in_parts_is_moved_with_its_parts_and_marks() {
    let table = new_table();
    if table.store.has_own_history() {
        return;
    }
    let entity = database::entity("Large");
    let read = |store: &Store| {
        let version = table.runtime.block_on(store.get(&entity, "v1", true));
        version.unwrap().unwrap()
    };
    let key = |sort_key: &str| format!("Large {sort_key}");
    table.runtime.block_on(async {
        let bytes = json!({"B": incompressible(409_500)});
        let latest = json!({"PK": {"S": "Large"}, "SK": {"S": "v0"}, "Latest": {"N": "1"}, "A": bytes});
        database::put_into(&table.client, &table.name, latest).await;
        assert_eq!(database::put_version(&table.store, &entity).await, PutOutcome::Recorded);
        let expires = table.store.clock().now() + Duration::from_secs(3600);
        let first = Version::FIRST;
        assert!(
            mark_version(&table.store, &entity, first, Mark::Expires(expires))
                .await
                .unwrap()
        );
    });
    let before = read(&table.store);
    assert!(before.contains_key("TTL"));
    assert_eq!(keys(&table, &table.name), ["part#v1#2", "v0", "v1"].map(key));
    let store = deploy(&table);
    table.json(
        &["admin", "table", "adopt", "--history-table", store.history_table()],
        0,
    );
    assert_eq!(keys(&table, &table.name), [key("v0")]);
    assert_eq!(keys(&table, store.history_table()), ["part#v1#2", "v1"].map(key));
    assert!(read(&store) == before);
    let history = database::items(&table.client, store.history_table());
    let mut history = table.runtime.block_on(history);
    history.retain(|item| item["PK"]["S"] != "#vzero");
    assert!(history.iter().all(|item| item["TTL"] == history[0]["TTL"]));
}
