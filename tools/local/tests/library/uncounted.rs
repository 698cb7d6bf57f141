//! Entities whose latest item is missing or has no `Latest`, although there are versions.

use serde_json::{Value, json};
use shared::{
    config::{WriteMode, WriteOptions},
    dynamodb::{
        Store,
        read::{history::HistoryQuery, versions::ReadError},
    },
};
use testkit::database::{Database, entity, mode, rows, settings, update, version, written};
use writer_fn::counter::{self, WriteError, WriteOutcome};

const TABLE: &str = "VersionNumTable";
const ID: &str = "Equipment#1";
/// The numbered versions of one equipment, as another program loaded them.
const STATES: [(&str, &str, &str); 3] = [
    ("v01", "2023-10-03T12:32:00", "NORMAL"),
    ("v02", "2023-11-05T12:12:00", "WARNING1"),
    ("v03", "2023-11-06T12:05:00", "NORMAL"),
];

fn item(key: &str) -> Value {
    json!({"PK": {"S": ID}, "SK": {"S": key}, "State": {"S": "NORMAL"}})
}

/// Returns the numbered versions, with an item of this key beside them.
fn loaded(beside: Option<&str>) -> Vec<Value> {
    let version = |(key, time, state)| {
        let mut version = item(key);
        (version["Time"], version["State"]) = (json!({"S": time}), json!({"S": state}));
        version
    };
    let versions = STATES.into_iter().map(version);
    versions.chain([item("Metadata")]).chain(beside.map(item)).collect()
}

async fn states(store: &Store) -> Vec<(u64, Value)> {
    let query = HistoryQuery {
        oldest_first: true,
        ..HistoryQuery::default()
    };
    let history = store.history(&entity(ID), query).await.unwrap().unwrap();
    let versions = history.collect().await.unwrap();
    let state =
        |view: &shared::domain::view::VersionView| serde_json::to_value(&view.attributes).unwrap()["State"].clone();
    versions.iter().map(|view| (view.version.get(), state(view))).collect()
}

/// Checks that no update of the entity is applied in a table with these items, because it reached a version.
async fn check_rejected(store: &Store, database: &Database, table: &str, reached: u64, options: WriteOptions) {
    let before = rows(database, table).await;
    for update in [
        update(json!({"ID": ID, "State": "OK"})),
        update(json!({"ID": ID, "State": "OK", "ExpectedVersion": 0})),
    ] {
        let error = counter::write(store, &update, options).await.unwrap_err();
        let version = version(reached);
        assert_eq!(error, WriteError::Uncounted { version }, "{table} {options:?}");
        let text = format!(
            "the entity reached version {reached} or a later one, but no latest item counts it: run `vzero admin repair --revive`"
        );
        assert_eq!(error.to_string(), text);
    }
    assert_eq!(rows(database, table).await, before, "{table} {options:?}");
}

/// A floor shows that there were versions, also if none of them exists any more.
#[tokio::test]
async fn an_update_never_counts_from_1_beside_versions_or_a_floor() {
    let database = Database::start().await;
    let mut floor = item("floor");
    floor["Floor"] = json!({"N": "10"});
    let mut pinned = item("v3");
    pinned["Pinned"] = json!({"BOOL": true});
    let notes = (0..9).map(|number| item(&format!("note#{number}")));
    for (name, digits, items, reached) in [
        ("uncounted", 2, loaded(Some("v0")), 3),
        ("padded", 2, loaded(Some("v00")), 3),
        ("none", 2, loaded(None), 3),
        ("floor", 1, vec![floor.clone()], 10),
        ("pinned", 1, vec![pinned, floor.clone()], 10),
        ("notes", 1, notes.chain([floor.clone()]).collect(), 10),
        ("uncounted-floor", 1, vec![item("v0"), floor], 10),
    ] {
        for (number, options) in settings().into_iter().enumerate() {
            let table = format!("{name}{number}");
            let store = database.store(&table, digits).await;
            for item in &items {
                database.put(&table, item.clone()).await;
            }
            check_rejected(&store, &database, &table, reached, options).await;
            if reached == 3 {
                // History can be read, and only the latest version is unknown.
                let expected: Vec<_> = (1..).zip(STATES.map(|(_, _, state)| json!({"S": state}))).collect();
                assert_eq!(states(&store).await, expected);
                let latest = store.latest(&entity(ID), true).await;
                assert!(
                    latest
                        == if name == "uncounted" {
                            Err(ReadError::Uncounted)
                        } else {
                            Ok(None)
                        }
                );
            }
        }
    }
}

#[tokio::test]
async fn the_check_costs_one_read_before_the_first_version_only() {
    let database = Database::start().await;
    let store = database.store(TABLE, 1).await;
    let operations = async |json: Value| {
        database.consumed();
        let outcome = counter::write(&store, &update(json), mode(WriteMode::Stream))
            .await
            .unwrap();
        assert!(matches!(outcome, WriteOutcome::Written { .. }), "{outcome:?}");
        database
            .consumed()
            .into_iter()
            .map(|(operation, _)| operation)
            .collect::<Vec<_>>()
    };
    assert_eq!(operations(json!({"ID": "E"})).await, ["Query", "UpdateItem"]);
    assert_eq!(operations(json!({"ID": "E"})).await, ["UpdateItem"]);
    assert_eq!(
        operations(json!({"ID": "F", "ExpectedVersion": 0})).await,
        ["Query", "UpdateItem"]
    );
}

#[tokio::test]
async fn a_latest_item_that_lost_only_its_counter_is_rejected() {
    let database = Database::start().await;
    for (number, options) in settings().into_iter().enumerate() {
        let table = format!("Lost{number}");
        let store = database.store(&table, 1).await;
        for state in ["a", "b"] {
            let update = update(json!({"ID": ID, "State": state}));
            testkit::database::write(&store, &update, options).await.unwrap();
        }
        let mut latest = testkit::database::item(&store, ID, "v0").await;
        latest.as_object_mut().unwrap().remove("Latest");
        database.put(&table, latest).await;
        check_rejected(&store, &database, &table, 2, options).await;
    }
    // Without versions, it is counted from 1.
    let store = database.store("NoVersions", 1).await;
    let latest = json!({"PK": {"S": ID}, "SK": {"S": "v0"}, "RecentRequests": {"M": {"hash": {"N": "4"}}}});
    database.put("NoVersions", latest).await;
    let first = counter::write(&store, &update(json!({"ID": ID})), mode(WriteMode::Stream)).await;
    assert_eq!(first, Ok(written(1)));
}

#[tokio::test]
async fn a_padded_latest_item_without_versions_is_not_ignored() {
    if testkit::endpoint::is_about_one_table("a_padded_latest_item_without_versions_is_not_ignored") {
        return;
    }
    let database = Database::start().await;
    let store = database.store(TABLE, 2).await;
    database
        .put(
            TABLE,
            json!({"PK": {"S": ID}, "SK": {"S": "v00"}, "Latest": {"N": "1"}}),
        )
        .await;
    check_rejected(&store, &database, TABLE, 1, mode(WriteMode::Stream)).await;
}

#[tokio::test]
async fn a_first_update_of_an_existing_entity_does_not_read_its_history() {
    let database = Database::start().await;
    let store = database.store(TABLE, 1).await;
    let large = || json!({"ID": ID, "Text": "x".repeat(3_000)});
    for _ in 0..20 {
        testkit::database::write(&store, &update(large()), mode(WriteMode::Inline))
            .await
            .unwrap();
    }
    database.consumed();
    let first = counter::write(
        &store,
        &update(json!({"ID": ID, "ExpectedVersion": 0})),
        mode(WriteMode::Inline),
    )
    .await;
    assert_eq!(
        first,
        Ok(WriteOutcome::Conflict {
            expected: 0,
            latest: 20
        })
    );
    let units: f64 = database.consumed().iter().map(|(_, units)| units).sum();
    assert!(units <= 4.0, "{units}");
}

/// Items of other programs between the floor and the versions are not read.
#[tokio::test]
async fn the_check_skips_items_of_other_programs() {
    if testkit::endpoint::is_about_one_table("the_check_skips_items_of_other_programs") {
        return;
    }
    let database = Database::start().await;
    let store = database.store(TABLE, 1).await;
    for number in 0..30 {
        let note = json!({"PK": {"S": "E"}, "SK": {"S": format!("note#{number}")}, "Text": {"S": "x".repeat(8_000)}});
        database.put(TABLE, note).await;
    }
    database.consumed();
    let first = counter::write(&store, &update(json!({"ID": "E"})), mode(WriteMode::Stream)).await;
    assert_eq!(first, Ok(written(1)));
    let consumed = database.consumed();
    let operations: Vec<_> = consumed.iter().map(|(operation, _)| operation.to_string()).collect();
    assert_eq!(operations, ["Query", "Query", "UpdateItem"]);
    // Four of the notes, and an empty range.
    assert!(consumed[0].1 <= 8.5 && consumed[1].1 <= 1.0, "{consumed:?}");
}
