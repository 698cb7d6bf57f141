//! The three write modes produce the same items and the same outcomes.

use futures::future::join_all;
use proptest::prelude::*;
use serde_json::{Value, json};
use shared::{
    config::{Idempotency, Ordering, Retention, Window, WriteMode, WriteOptions},
    domain::{names, version::Version},
    dynamodb::Store,
};
use testkit::database::{Database, MODES, at_second, entity, mode, rows, update, write};
use writer_fn::{
    counter::{self, WriteError, WriteOutcome},
    update::Update,
};

/// Generates updates of two entities with eight request ids, so that every outcome occurs.
fn any_update() -> impl Strategy<Value = Value> {
    let entity = prop_oneof![Just("a"), Just("b")];
    let request = 0..8u8;
    let attributes = prop::collection::hash_map("[XYZ]", any_attribute(), 0..3);
    let expected = prop::option::weighted(0.3, 0..4u64);
    let deleted = prop::option::weighted(0.3, any::<bool>());
    (entity, request, attributes, expected, deleted, 0..6i64).prop_map(
        |(entity, request, attributes, expected, deleted, time)| {
            let mut update = json!({"ID": entity, "RequestId": format!("r{request}"), "Timestamp": time});
            for (name, value) in attributes {
                update[name] = value;
            }
            if let Some(expected) = expected {
                update["ExpectedVersion"] = json!(expected);
            }
            if let Some(deleted) = deleted {
                update["Deleted"] = json!(deleted);
            }
            update
        },
    )
}

fn any_attribute() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!(null)),
        Just(json!("text")),
        (0..3u8).prop_map(|n| json!(n)),
        Just(serde_json::from_str("1.50e3").unwrap()),
        Just(json!([1, {"a": null}])),
        Just(json!(true)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn all_modes_produce_the_same_items_and_outcomes(
        updates in prop::collection::vec(any_update(), 1..25),
        by_time: bool,
        skip_unchanged: bool,
        digits in 1..=2u8,
        idempotency in prop_oneof![
            (1..=3u8).prop_map(|window| Idempotency::Recent(Window::new(window).unwrap())),
            Just(Idempotency::Recent(Window::default())),
            Just(Idempotency::Ledger(Retention::default())),
        ],
    ) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let ordering = if by_time { Ordering::Time } else { Ordering::Arrival };
        let results = runtime.block_on(async {
            let database = Database::start().await;
            let mut results = Vec::new();
            for mode in MODES {
                let table = format!("{mode:?}");
                let store = database.store(&table, digits).await;
                let options = WriteOptions {
                    mode,
                    idempotency,
                    skip_unchanged,
                };
                let mut outcomes = Vec::new();
                for (second, json) in (1..).zip(&updates) {
                    let update = Update::parse(json.clone(), "none", ordering).unwrap();
                    outcomes.push(write(&at_second(&store, second), &update, options).await);
                }
                let mut rows = rows(&database, &table).await;
                for row in &mut rows {
                    // The expiry time of a marker depends on the time of the write.
                    row.as_object_mut().unwrap().remove(names::TTL);
                }
                results.push((outcomes, rows));
            }
            results
        });
        prop_assert_eq!(&results[0], &results[1]);
        prop_assert_eq!(&results[0], &results[2]);
    }
}

async fn apply(store: &Store, json: Value, write_mode: WriteMode) -> Result<WriteOutcome, WriteError> {
    counter::write(store, &update(json), mode(write_mode)).await
}

#[tokio::test]
async fn concurrent_writers_get_distinct_versions_in_every_mode() {
    let database = Database::start().await;
    for write_mode in MODES {
        let table = format!("{write_mode:?}");
        let store = database.store(&table, 1).await;
        let results = join_all((0..8).map(|n| apply(&store, json!({"ID": "E", "Writer": n}), write_mode))).await;
        let mut versions: Vec<_> = results
            .into_iter()
            .map(|result| match result {
                Ok(WriteOutcome::Written { version }) => version.get(),
                other => panic!("{write_mode:?}: {other:?}"),
            })
            .collect();
        versions.sort_unstable();
        assert_eq!(versions, (1..=8).collect::<Vec<_>>(), "{write_mode:?}");
        if write_mode != WriteMode::Stream {
            assert_eq!(rows(&database, &table).await.len(), 9, "{write_mode:?}");
        }
    }
}

#[tokio::test]
async fn the_stream_finds_inline_and_transaction_writes_already_recorded() {
    use shared::{domain::version_item::VersionItem, dynamodb::put::put_version::PutOutcome};
    let database = Database::start().await;
    let store = database.store("Table", 1).await;
    for write_mode in [WriteMode::Inline, WriteMode::Transaction] {
        apply(&store, json!({"ID": "E", "N": 1.50, "S": ["a"]}), write_mode)
            .await
            .unwrap();
        let image = store.get(&entity("E"), "v0", true).await.unwrap().unwrap();
        let version = VersionItem::from_image(image, store.digits()).unwrap();
        assert_eq!(
            store.put_version(&version).await,
            Ok(PutOutcome::AlreadyRecorded),
            "{write_mode:?}"
        );
    }
}

#[tokio::test]
async fn inline_puts_the_version_item_that_a_first_delivery_did_not() {
    let database = Database::start().await;
    let store = database.store("Table", 1).await;
    let json = json!({"ID": "E", "RequestId": "r-1", "A": 1});
    // A writer stopped between its two requests.
    apply(&store, json.clone(), WriteMode::Stream).await.unwrap();
    assert_eq!(store.get(&entity("E"), "v1", true).await.unwrap(), None);
    let version = Version::FIRST;
    assert_eq!(
        apply(&store, json, WriteMode::Inline).await,
        Ok(WriteOutcome::Duplicate { version })
    );
    assert!(store.get(&entity("E"), "v1", true).await.unwrap().is_some());
}

#[tokio::test]
async fn an_existing_version_item_is_never_overwritten() {
    let database = Database::start().await;
    let store = database.store("Table", 1).await;
    apply(&store, json!({"ID": "E"}), WriteMode::Inline).await.unwrap();
    let foreign = json!({"PK": {"S": "E"}, "SK": {"S": "v2"}, "State": {"S": "foreign"}});
    database.put("Table", foreign.clone()).await;
    let before = rows(&database, "Table").await;
    let version = Version::new(2).unwrap();
    let taken = Err(WriteError::Taken { version });
    assert_eq!(apply(&store, json!({"ID": "E"}), WriteMode::Transaction).await, taken);
    assert_eq!(rows(&database, "Table").await, before);
    assert_eq!(apply(&store, json!({"ID": "E"}), WriteMode::Inline).await, taken);
    let stored = serde_json::to_value(store.get(&entity("E"), "v2", true).await.unwrap().unwrap()).unwrap();
    assert_eq!(stored["State"], foreign["State"]);
}
