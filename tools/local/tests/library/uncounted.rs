//! Entities whose latest item is missing or has no `Latest`, although there are versions.

use serde_json::{Value, json};
use shared::{
    domain::{keys::LATEST_KEY, ledger::Retention, version::Version},
    dynamodb::{
        Store,
        read::{history::HistoryQuery, versions::ReadError},
        write::{Idempotency, WriteError, WriteMode, WriteOptions, WriteOutcome},
    },
};
use testkit::database::{Database, entity, mode, rows, update};

const TABLE: &str = "VersionNumTable";
const ID: &str = "Equipment#1";
/// The numbered versions of one equipment, as another program loaded them.
const STATES: [(&str, &str, &str); 3] = [
    ("v01", "2023-10-03T12:32:00", "NORMAL"),
    ("v02", "2023-11-05T12:12:00", "WARNING1"),
    ("v03", "2023-11-06T12:05:00", "NORMAL"),
];

/// Returns each write mode with each idempotency.
pub(crate) fn settings() -> Vec<WriteOptions> {
    let modes = [WriteMode::Stream, WriteMode::Inline, WriteMode::Transaction];
    let with = |idempotency| {
        modes.map(|mode| WriteOptions {
            mode,
            idempotency,
            ..WriteOptions::default()
        })
    };
    let ledger = Idempotency::Ledger(Retention::default());
    [with(Idempotency::default()), with(ledger)].concat()
}

async fn load(database: &Database, table: &str, latest: Option<(&str, &str)>) {
    for (key, time, state) in STATES {
        database
            .put(
                table,
                json!({"PK": {"S": ID}, "SK": {"S": key}, "Time": {"S": time}, "State": {"S": state}}),
            )
            .await;
    }
    database
        .put(
            table,
            json!({"PK": {"S": ID}, "SK": {"S": "Metadata"}, "Name": {"S": "Equipment-001"}}),
        )
        .await;
    if let Some((key, state)) = latest {
        let item = json!({"PK": {"S": ID}, "SK": {"S": key}, "Time": {"S": STATES[2].1}, "State": {"S": state}});
        database.put(table, item).await;
    }
}

fn version(number: u64) -> Version {
    Version::new(number).unwrap()
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

#[tokio::test]
async fn an_update_never_counts_from_1_while_versions_exist() {
    let database = Database::start().await;
    for (number, options) in settings().into_iter().enumerate() {
        for (name, latest) in [
            ("uncounted", Some(("v0", "NORMAL"))),
            ("padded", Some(("v00", "NORMAL"))),
            ("none", None),
        ] {
            let table = format!("{name}{number}");
            let store = database.store(&table, 2).await;
            load(&database, &table, latest).await;
            let before = rows(&database, &table).await;
            for update in [
                update(json!({"ID": ID, "State": "OK"})),
                update(json!({"ID": ID, "State": "OK", "ExpectedVersion": 0})),
            ] {
                let error = store.write(&update, options).await.unwrap_err();
                assert_eq!(
                    error,
                    WriteError::Uncounted { version: version(3) },
                    "{name} {options:?}"
                );
                let text = "the entity reached version 3 or a later one, but no latest item counts it: run `vzero admin repair --revive`";
                assert_eq!(error.to_string(), text);
            }
            assert_eq!(rows(&database, &table).await, before);
            // History can be read, and only the latest version is unknown.
            let expected: Vec<_> = (1..).zip(STATES.map(|(_, _, state)| json!({"S": state}))).collect();
            assert_eq!(states(&store).await, expected);
            match name {
                "uncounted" => assert!(store.latest(&entity(ID), true).await == Err(ReadError::Uncounted)),
                _ => assert!(store.latest(&entity(ID), true).await.unwrap().is_none()),
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
        let outcome = store.write(&update(json), mode(WriteMode::Stream)).await.unwrap();
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
        let key = aws_sdk_dynamodb::types::AttributeValue::S;
        let remove = database.client.update_item().table_name(database.table_name(&table));
        let remove = remove.key("PK", key(ID.to_owned())).key("SK", key("v0".to_owned()));
        remove.update_expression("REMOVE Latest").send().await.unwrap();
        let before = rows(&database, &table).await;
        let error = store.write(&update(json!({"ID": ID, "State": "c"})), options).await;
        assert_eq!(error, Err(WriteError::Uncounted { version: version(2) }), "{options:?}");
        assert_eq!(rows(&database, &table).await, before);
    }
    // Without versions, it is counted from 1.
    let store = database.store("NoVersions", 1).await;
    let latest = json!({"PK": {"S": ID}, "SK": {"S": "v0"}, "RecentRequests": {"M": {"hash": {"N": "4"}}}});
    database.put("NoVersions", latest).await;
    let first = store.write(&update(json!({"ID": ID})), mode(WriteMode::Stream)).await;
    assert_eq!(first, Ok(WriteOutcome::Written { version: version(1) }));
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
    let error = store.write(&update(json!({"ID": ID})), mode(WriteMode::Stream)).await;
    assert_eq!(error, Err(WriteError::Uncounted { version: version(1) }));
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
    let first = store
        .write(
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

/// A floor shows that there were versions, also if none of them exists any more.
#[tokio::test]
async fn an_update_never_creates_a_version_below_the_floor() {
    let database = Database::start().await;
    let item = |key: &str| json!({"PK": {"S": ID}, "SK": {"S": key}, "State": {"S": "x"}});
    let pinned = |key: &str| {
        let mut pinned = item(key);
        pinned["Pinned"] = json!({"BOOL": true});
        pinned
    };
    let notes: Vec<_> = (0..9).map(|number| item(&format!("note#{number}"))).collect();
    for (number, options) in settings().into_iter().enumerate() {
        for (name, others) in [
            ("alone", vec![]),
            ("pinned", vec![pinned("v3")]),
            ("notes", notes.clone()),
            ("uncounted", vec![item("v0")]),
        ] {
            let table = format!("{name}{number}");
            let store = database.store(&table, 1).await;
            let floor = json!({"PK": {"S": ID}, "SK": {"S": "floor"}, "Floor": {"N": "10"}});
            for item in others.into_iter().chain([floor]) {
                database.put(&table, item).await;
            }
            let before = rows(&database, &table).await;
            for update in [
                update(json!({"ID": ID, "State": "OK"})),
                update(json!({"ID": ID, "State": "OK", "ExpectedVersion": 0})),
            ] {
                let error = store.write(&update, options).await;
                assert_eq!(
                    error,
                    Err(WriteError::Uncounted { version: version(10) }),
                    "{name} {options:?}"
                );
            }
            assert_eq!(rows(&database, &table).await, before, "{name} {options:?}");
        }
    }
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
    let written = store.write(&update(json!({"ID": "E"})), mode(WriteMode::Stream)).await;
    assert_eq!(written, Ok(WriteOutcome::Written { version: version(1) }));
    let consumed = database.consumed();
    let operations: Vec<_> = consumed.iter().map(|(operation, _)| operation.to_string()).collect();
    assert_eq!(operations, ["Query", "Query", "UpdateItem"]);
    // Four of the notes, and an empty range.
    assert!(consumed[0].1 <= 8.5 && consumed[1].1 <= 1.0, "{consumed:?}");
}
