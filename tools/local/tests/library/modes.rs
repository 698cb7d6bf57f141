//! Three ways to make a version: the same items, the same outcomes.

use futures::future::join_all;
use proptest::prelude::*;
use serde_json::{Value, json};
use shared::{
    domain::{
        ledger::Retention,
        names,
        recent_requests::Window,
        update::{Ordering, Update},
        version::Version,
    },
    dynamodb::{
        Store,
        write::{Idempotency, WriteError, WriteMode, WriteOptions, WriteOutcome},
    },
};

use testkit::database::{Database, entity, mode, put_version, rows, update, write};

const MODES: [WriteMode; 3] = [WriteMode::Stream, WriteMode::Inline, WriteMode::Transaction];

/// Any update of a few entities by a few requests, so that every outcome is met.
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
    fn all_modes_make_the_same_items_and_have_the_same_outcomes(
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
                for json in &updates {
                    let update = Update::parse(json.clone(), "none", ordering).unwrap();
                    outcomes.push(write(&store, &update, options).await);
                }
                let mut rows = rows(&database, &table).await;
                for row in &mut rows {
                    // When a marker expires depends on when it was written.
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

async fn one(store: &Store, json: Value, of: WriteMode) -> Result<WriteOutcome, WriteError> {
    store.write(&update(json), mode(of)).await
}

#[tokio::test]
async fn writers_at_once_get_each_version_once_in_every_mode() {
    let database = Database::start().await;
    for of in MODES {
        let table = format!("{of:?}");
        let store = database.store(&table, 1).await;
        let answers = join_all((0..8).map(|n| one(&store, json!({"ID": "E", "Writer": n}), of))).await;
        let mut versions: Vec<_> = answers
            .into_iter()
            .map(|answer| match answer {
                Ok(WriteOutcome::Written { version }) => version.get(),
                other => panic!("{of:?}: {other:?}"),
            })
            .collect();
        versions.sort_unstable();
        assert_eq!(versions, (1..=8).collect::<Vec<_>>(), "{of:?}");
        if of != WriteMode::Stream {
            assert_eq!(rows(&database, &table).await.len(), 9, "{of:?}");
        }
    }
}

#[tokio::test]
async fn the_stream_finds_already_recorded_what_inline_and_transaction_wrote() {
    use shared::{domain::version_item::VersionItem, dynamodb::put::put_version::PutOutcome};
    let database = Database::start().await;
    let store = database.store("Table", 1).await;
    for of in [WriteMode::Inline, WriteMode::Transaction] {
        one(&store, json!({"ID": "E", "N": 1.50, "S": ["a"]}), of)
            .await
            .unwrap();
        let image = store.get(&entity("E"), "v0", true).await.unwrap().unwrap();
        let version = VersionItem::from_image(image, store.digits()).unwrap();
        assert_eq!(
            store.put_version(&version).await,
            Ok(PutOutcome::AlreadyRecorded),
            "{of:?}"
        );
    }
}

#[tokio::test]
async fn inline_puts_again_what_a_first_delivery_could_not() {
    let database = Database::start().await;
    let store = database.store("Table", 1).await;
    let json = json!({"ID": "E", "RequestId": "r-1", "A": 1});
    // A writer that stopped between its two requests.
    one(&store, json.clone(), WriteMode::Stream).await.unwrap();
    assert_eq!(store.get(&entity("E"), "v1", true).await.unwrap(), None);
    let version = Version::FIRST;
    assert_eq!(
        one(&store, json, WriteMode::Inline).await,
        Ok(WriteOutcome::Duplicate { version })
    );
    assert!(store.get(&entity("E"), "v1", true).await.unwrap().is_some());
}

#[tokio::test]
async fn a_version_that_is_taken_is_never_overwritten() {
    let database = Database::start().await;
    let store = database.store("Table", 1).await;
    let by_hand = json!({"PK": {"S": "E"}, "SK": {"S": "v1"}, "State": {"S": "by hand"}});
    database.put("Table", by_hand.clone()).await;
    let taken = Err(WriteError::Taken {
        version: Version::FIRST,
    });
    assert_eq!(one(&store, json!({"ID": "E"}), WriteMode::Transaction).await, taken);
    assert_eq!(rows(&database, "Table").await, std::slice::from_ref(&by_hand));
    assert_eq!(one(&store, json!({"ID": "E"}), WriteMode::Inline).await, taken);
    let stored = serde_json::to_value(store.get(&entity("E"), "v1", true).await.unwrap().unwrap()).unwrap();
    assert_eq!(stored["State"], by_hand["State"]);
}

#[tokio::test]
async fn an_update_that_changes_nothing_can_be_left_out() {
    let database = Database::start().await;
    let store = database.store("Table", 1).await;
    let skipping = |json: Value| {
        let options = WriteOptions {
            mode: WriteMode::Stream,
            skip_unchanged: true,
            ..WriteOptions::default()
        };
        let store = &store;
        async move { store.write(&update(json), options).await.unwrap() }
    };
    let version = |number| Version::new(number).unwrap();
    assert_eq!(
        skipping(json!({"ID": "E", "A": 1})).await,
        WriteOutcome::Written { version: version(1) }
    );
    assert_eq!(
        skipping(json!({"ID": "E", "A": 1.0, "B": null})).await,
        WriteOutcome::Unchanged { version: version(1) }
    );
    assert_eq!(
        skipping(json!({"ID": "E", "A": 2})).await,
        WriteOutcome::Written { version: version(2) }
    );
    let expecting = skipping(json!({"ID": "E", "A": 2, "ExpectedVersion": 1})).await;
    assert_eq!(expecting, WriteOutcome::Conflict { expected: 1, latest: 2 });
    put_version(&store, &entity("E")).await;
}
