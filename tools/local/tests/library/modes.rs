//! The write modes produce the same items and the same outcomes.

use proptest::prelude::*;
use serde_json::{Value, json};
use shared::{config::Window, domain::names, dynamodb::put::put_version::PutOutcome};
use testkit::{
    database::Database,
    updates::{Idempotency, MODES, Ordering, Update, WriteError, WriteMode, WriteOptions, WriteOutcome, duplicate},
    world::World,
};

/// Generates updates of two entities with eight request ids, so that every outcome occurs.
fn any_update() -> impl Strategy<Value = Value> {
    let entity = prop_oneof![Just("a"), Just("b")];
    let attributes = prop::collection::hash_map("[XYZ]", any_attribute(), 0..3);
    let expected = prop::option::weighted(0.3, 0..4u64);
    let deleted = prop::option::weighted(0.3, any::<bool>());
    (entity, 0..8u8, attributes, expected, deleted, 0..6i64).prop_map(
        |(entity, request, attributes, expected, deleted, time)| {
            let mut update = json!({"ID": entity, "RequestId": format!("r{request}"), "Timestamp": time});
            let members = update.as_object_mut().unwrap();
            members.extend(attributes);
            members.extend(expected.map(|expected| ("ExpectedVersion".to_owned(), json!(expected))));
            members.extend(deleted.map(|deleted| ("Deleted".to_owned(), json!(deleted))));
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

/// Applies the updates, one a second, in a table of this mode, and returns the outcomes and the items.
async fn applied(
    database: &Database,
    digits: u8,
    options: WriteOptions,
    updates: &[Update],
) -> (Vec<Result<WriteOutcome, WriteError>>, Vec<Value>) {
    let world = World::new(database, &format!("{:?}", options.mode), digits)
        .await
        .with(options);
    let mut outcomes = Vec::new();
    for (second, update) in (1..).zip(updates) {
        outcomes.push(world.at(second).record(update).await);
    }
    let mut rows = world.rows().await;
    for row in &mut rows {
        // The expiry time of a marker depends on the time of the write.
        row.as_object_mut().unwrap().remove(names::TTL);
    }
    (outcomes, rows)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn all_modes_produce_the_same_items_and_outcomes(
        updates in prop::collection::vec(any_update(), 1..25),
        by_time: bool,
        skip_unchanged: bool,
        digits in 1..=2u8,
        idempotency in prop_oneof![
            (1..=3u8).prop_map(|window| Idempotency::Recent(Window::new(window).unwrap())),
            Just(Idempotency::Recent(Window::default())),
            Just(Idempotency::Ledger),
        ],
    ) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let ordering = if by_time { Ordering::Time } else { Ordering::Arrival };
        let updates: Vec<_> = updates.into_iter().map(|json| Update::parse(json, "none", ordering).unwrap()).collect();
        let [stream, inline, transaction] = runtime.block_on(async {
            let database = Database::start().await;
            let of = |mode| WriteOptions { mode, idempotency, skip_unchanged };
            let [stream, inline, transaction] = MODES.map(of);
            [
                applied(&database, digits, stream, &updates).await,
                applied(&database, digits, inline, &updates).await,
                applied(&database, digits, transaction, &updates).await,
            ]
        });
        prop_assert_eq!(&stream, &inline);
        prop_assert_eq!(&stream, &transaction);
    }
}

#[tokio::test]
async fn the_stream_finds_inline_and_transaction_writes_already_recorded() {
    let database = Database::start().await;
    let world = World::new(&database, "Table", 1).await;
    for mode in [WriteMode::Inline, WriteMode::Transaction] {
        world.in_mode(mode).apply(json!({"N": 1.50, "S": ["a"]})).await.unwrap();
        assert_eq!(world.put_version().await, PutOutcome::AlreadyRecorded, "{mode:?}");
    }
}

#[tokio::test]
async fn inline_puts_the_version_item_that_a_first_delivery_did_not() {
    let database = Database::start().await;
    let world = World::new(&database, "Table", 1).await;
    let json = json!({"RequestId": "r-1", "A": 1});
    // A writer stopped between its two requests.
    world.apply(json.clone()).await.unwrap();
    assert!(world.item("v1").await.is_null());
    let again = world.in_mode(WriteMode::Inline).apply(json).await;
    assert_eq!(again, Ok(duplicate(1)));
    assert!(!world.item("v1").await.is_null());
}
