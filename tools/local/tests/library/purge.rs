//! Purge of an entity while the stream is behind, on a real table.

use std::time::Duration;

use operations::{
    purge::entity::{ItemCounts, count_items},
    read::item_collection::item_collection,
};
use serde_json::{Value, json};
use shared::{
    clock::{Clock, Deadline},
    config::{Config, Ordering, WriteMode, WriteOptions},
    domain::keys::{LATEST_KEY, VersionDigits},
    dynamodb::{Store, client::ClientSettings},
};
use stream_fn::{HistoryWriter, response::Outcome};
use testkit::database::{Database, at_second, entity, mode, put_version, update};
use writer_fn::counter::{self, WriteOutcome};

/// A time in seconds since 1970.
const START: u64 = 1_795_328_688;

fn clock(second: u64) -> Clock {
    Clock::new(move || Duration::from_secs(second))
}

/// Applies an update at this second, and returns the stream record, which is not processed yet.
async fn write(store: &Store, state: &str, second: u64) -> String {
    let store = at_second(store, second);
    let written = counter::write(
        &store,
        &update(json!({"ID": "E", "State": state})),
        mode(WriteMode::Stream),
    )
    .await;
    assert!(matches!(written, Ok(WriteOutcome::Written { .. })), "{written:?}");
    record(&store, second).await
}

/// Returns the stream record of the latest item.
async fn record(store: &Store, second: u64) -> String {
    let latest = store.get(&entity("E"), LATEST_KEY, true).await.unwrap();
    let image = serde_json::to_value(latest.unwrap()).unwrap();
    let change = json!({
        "Keys": {"PK": image["PK"], "SK": image["SK"]}, "SequenceNumber": image["Latest"]["N"], "NewImage": image,
        "ApproximateCreationDateTime": second,
    });
    json!({"eventName": "MODIFY", "dynamodb": change}).to_string()
}

async fn purge(store: &Store, second: u64) -> ItemCounts {
    let mut deleted = ItemCounts::new();
    let store = at_second(store, second);
    let purged = operations::purge::entity::purge(&store, &entity("E"), Duration::ZERO, |_| {}, &mut deleted).await;
    assert_eq!(purged, Ok(()));
    deleted
}

/// Returns the function at this second, and a redrive.
fn writers(database: &Database, store: &Store, second: u64) -> [HistoryWriter; 2] {
    let settings = Config {
        table: database.table_name("Table"),
        history: store.own_history().map(str::to_owned),
        attached: None,
        digits: VersionDigits::default(),
        compression: store.compression(),
        ordering: Ordering::Arrival,
        write: WriteOptions::default(),
        client: ClientSettings::default(),
    };
    [
        HistoryWriter::new(database.client.clone(), &settings)
            .with_checked_layout()
            .with_clock(clock(second)),
        HistoryWriter::from_store(store.clone()).with_clock(clock(second)),
    ]
}

/// Returns the outcomes of the records: `R`ecorded, `A`lready recorded, `P`urged, or `F`ailed.
async fn process(writer: &HistoryWriter, records: &[String]) -> String {
    let records = records.iter().map(|record| &**record).collect();
    let processed = writer.process(records, Deadline::after(Duration::from_secs(60))).await;
    let letter = |outcome: &Outcome| match outcome {
        Outcome::Recorded => 'R',
        Outcome::AlreadyRecorded => 'A',
        Outcome::Purged => 'P',
        Outcome::Pruned => 'p',
        _ => 'F',
    };
    processed.iter().map(|record| letter(&record.outcome)).collect()
}

async fn states(store: &Store) -> Vec<Value> {
    let items = item_collection(store, &entity("E"), true, |_| {}).await.unwrap().items;
    let state = |attributes: &shared::domain::Item| serde_json::to_value(attributes.get("State")).unwrap()["S"].clone();
    items
        .iter()
        .map(|item| json!([item.sort_key, state(&item.attributes)]))
        .collect()
}

#[tokio::test]
async fn a_new_entity_with_the_same_key_is_complete() {
    for index in 0..2 {
        let database = Database::start().await;
        let store = database.store("Table", 1).await;
        let mut records = Vec::new();
        for (state, second) in [("purged 1", START), ("purged 2", START)] {
            records.push(write(&store, state, second).await);
        }
        // Only the first one is processed before the purge.
        let fresh = &writers(&database, &store, START)[index];
        assert_eq!(process(fresh, &records[..1]).await, "R");
        assert_eq!(purge(&store, START).await.values().sum::<u64>(), 2);
        let late = &writers(&database, &store, START + 3600)[index];
        assert_eq!(process(late, &records).await, "PP");
        assert!(states(&store).await.is_empty());
        // Right after the purge, by the same clock.
        for (state, second) in [("new 1", START), ("new 2", START), ("new 3", START + 1)] {
            let store = at_second(&store, second);
            let store = store.with_clock(Clock::new(move || {
                Duration::from_secs(second) + Duration::from_millis(1)
            }));
            let written = counter::write(
                &store,
                &update(json!({"ID": "E", "State": state})),
                mode(WriteMode::Stream),
            )
            .await;
            assert!(written.is_ok(), "{written:?}");
            records.push(record(&store, second).await);
        }
        assert_eq!(process(late, &records).await, "PPRRR");
        assert_eq!(process(late, &records).await, "PPAAA");
        let new = [["v0", "new 3"], ["v1", "new 1"], ["v2", "new 2"], ["v3", "new 3"]];
        assert_eq!(json!(states(&store).await), json!(new));
        // It is purged too: now the versions of both are rejected.
        purge(&store, START + 100).await;
        assert_eq!(process(late, &records).await, "PPPPP");
        assert!(states(&store).await.is_empty());
    }
}

#[tokio::test]
async fn versions_of_another_program_do_not_reappear() {
    let database = Database::start().await;
    let store = database.store("Table", 1).await;
    write(&store, "own", START).await;
    // Another program increments the counter only. Its version has the time of the stream, later than `RecordedAt` of v0.
    let mut latest = store.get(&entity("E"), LATEST_KEY, true).await.unwrap().unwrap();
    latest.insert("Latest".to_owned(), shared::domain::AttributeValue::N("2".to_owned()));
    database.put("Table", serde_json::to_value(latest).unwrap()).await;
    let records = [record(&store, START + 500).await];
    purge(&store, START + 502).await;
    let late = &writers(&database, &store, START + 3600)[0];
    assert_eq!(process(late, &records).await, "P");
    assert!(states(&store).await.is_empty());
}

#[tokio::test]
async fn without_a_latest_item_late_versions_do_not_reappear() {
    let database = Database::start().await;
    let store = database.store("Table", 1).await;
    write(&store, "purged 1", START).await;
    put_version(&store, &entity("E")).await;
    let records = [write(&store, "purged 2", START + 1).await];
    // An interrupted purge, or another program, deleted the latest item before version 2 arrived.
    testkit::database::delete_item(&database.client, &database.table_name("Table"), "E", "v0").await;
    assert_eq!(purge(&store, START + 5).await.values().sum::<u64>(), 1);
    let late = &writers(&database, &store, START + 3600)[0];
    assert_eq!(process(late, &records).await, "P");
    assert!(states(&store).await.is_empty());
}

#[tokio::test]
async fn a_marker_is_no_entity() {
    let database = Database::start().await;
    let store = database.store("Table", 1).await;
    write(&store, "purged", START).await;
    purge(&store, START + 5).await;
    let items = store.scan_items().await.unwrap();
    assert_eq!(items.len(), 1, "{items:?}");
    let key = shared::domain::keys::partition_key_of(&items[0]).unwrap();
    assert!(key.starts_with("#vzero#purged#"), "{key}");
    assert!(shared::domain::entity::EntityId::new(key).is_err());
    assert_eq!(count_items(&store, &entity("E")).await.unwrap(), ItemCounts::new());
    // An update starts again at version 1.
    write(&store, "new", START + 60).await;
    assert_eq!(json!(states(&store).await), json!([["v0", "new"]]));
}
