//! Entities with very great version numbers: a read beside a wide gap ends after a number of requests that does not depend on its
//! width, and no update goes beyond the greatest version.

use std::time::Duration;

use operations::as_of::effective_at::effective_at;
use serde_json::json;
use shared::{
    config::{Idempotency, Retention, WriteMode, WriteOptions},
    domain::{recorded_at::RecordedAt, time::ClientTime, version::Version},
    dynamodb::{
        Store,
        read::{
            history::HistoryQuery,
            versions::{Lag, ReadError},
        },
    },
};
use testkit::database::{Database, MODES, entity, history, mode, rows, update, write};
use writer_fn::counter::WriteOutcome;

/// A search back and a binary search over the greatest gap send 128.
const MAX_REQUESTS: usize = 200;

/// Returns a store with the entity `E`, whose latest version is the greatest one, and which has only its first versions.
async fn store(database: &Database, name: &str, digits: u8) -> Store {
    let store = database.store(name, digits).await;
    let item = |key: String, number: u64| json!({"PK": {"S": "E"}, "SK": {"S": key}, "n": {"N": number.to_string()}});
    for number in [1, 2, 3, 1_000_000] {
        let key = store.digits().version_key(Version::new(number).unwrap());
        database.put(name, item(key, number)).await;
    }
    let mut latest = item("v0".to_owned(), 0);
    latest["Latest"] = json!({"N": Version::MAX.to_string()});
    latest["RecordedVersion"] = latest["Latest"].clone();
    latest["RecordedAt"] = json!({"S": "2026-11-22T00:00:00.000000000Z"});
    latest["Time"] = json!({"S": "2026-11-22T00:00:00Z"});
    database.put(name, latest).await;
    store
}

async fn bounded<T>(database: &Database, what: &str, read: impl Future<Output = T>) -> T {
    database.consumed();
    let read = tokio::time::timeout(Duration::from_secs(30), read).await;
    let read = read.unwrap_or_else(|_| panic!("{what} does not end"));
    let requests = database.consumed().len();
    assert!(requests <= MAX_REQUESTS, "{what}: {requests} requests");
    read
}

#[tokio::test]
async fn every_read_ends_beside_a_gap() {
    let database = Database::start().await;
    for digits in [1, 5, 20] {
        let store = store(&database, &format!("Gap{digits}"), digits).await;
        let entity = entity("E");
        for (oldest_first, limit, expected) in [
            (false, Some(3), &[Version::MAX, 1_000_000, 3][..]),
            (false, None, &[Version::MAX, 1_000_000, 3, 2, 1]),
            (true, Some(4), &[1, 2, 3, 1_000_000]),
            (true, None, &[1, 2, 3, 1_000_000, Version::MAX]),
        ] {
            let query = HistoryQuery {
                oldest_first,
                limit,
                ..HistoryQuery::default()
            };
            let what = format!("history of {digits} digits, {query:?}");
            let numbers = Box::pin(bounded(&database, &what, history(&store, "E", query)))
                .await
                .unwrap();
            assert_eq!(numbers, expected, "{what}");
        }
        let lag = bounded(&database, "lag", store.lag(&entity)).await.unwrap().unwrap();
        let latest = Version::new(Version::MAX).unwrap();
        assert!(
            matches!(lag, Lag { latest: found, through: Some(through) } if found == latest && through.get() < latest.get())
        );
        let before = RecordedAt::parse("2020-01-01").unwrap();
        let as_of = bounded(
            &database,
            "as of",
            operations::as_of::as_of(&store, &entity, before, true),
        )
        .await;
        assert!(matches!(
            as_of,
            Err(ReadError::Missing { .. } | ReadError::NotRecordedAt { .. })
        ));
        let before = ClientTime::parse("2020-01-01").unwrap();
        let effective = effective_at(&store, &entity, before, u64::MAX, true, |_| ());
        let effective = Box::pin(bounded(&database, "effective at", effective)).await;
        assert!(matches!(effective, Err(ReadError::Missing { .. })));
    }
}

#[tokio::test]
async fn an_update_of_the_greatest_version_is_rejected_and_changes_nothing() {
    let database = Database::start().await;
    let store = database.store("Greatest", 1).await;
    for latest in [Version::MAX, Version::MAX + 1, u64::MAX] {
        for idempotency in [Idempotency::default(), Idempotency::Ledger(Retention::default())] {
            for write_mode in MODES {
                let options = WriteOptions {
                    idempotency,
                    ..mode(write_mode)
                };
                let id = format!("{latest} {idempotency:?} {write_mode:?}");
                let v0 = json!({"PK": {"S": id}, "SK": {"S": "v0"}, "Latest": {"N": latest.to_string()}});
                database.put("Greatest", v0).await;
                let before = rows(&database, "Greatest").await;
                let written = write(&store, &update(json!({"ID": id, "A": "a"})), options).await;
                assert!(
                    written.as_ref().is_err_and(|error| error.contains("Latest is above") || error.contains("the greatest version")),
                    "{id}: {written:?}"
                );
                assert_eq!(rows(&database, "Greatest").await, before, "{id}");
            }
        }
    }
    // The version before it still has a next one.
    let last = json!({"PK": {"S": "E"}, "SK": {"S": "v0"}, "Latest": {"N": (Version::MAX - 1).to_string()}});
    database.put("Greatest", last).await;
    let written = write(&store, &update(json!({"ID": "E"})), mode(WriteMode::Stream)).await;
    let version = Version::new(Version::MAX).unwrap();
    assert_eq!(written, Ok(WriteOutcome::Written { version }));
}
