//! Reads with replayed responses: an item that DynamoDB has not deleted yet is expired by the store's clock, and unprocessed keys are
//! read again.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the message")]

use std::time::Duration;

use serde_json::{Value, json};
use shared::{
    clock::Clock,
    domain::{entity::EntityId, keys::VersionDigits, version::Version},
    dynamodb::{Store, client::error::ErrorKind},
};
use testkit::replay::Replay;

/// Expiry of the items, in seconds since 1970: long before the wall clock.
const TTL: u64 = 100;

fn store(replay: &Replay, second: u64) -> Store {
    let clock = Clock::new(move || Duration::from_secs(second));
    Store::new(replay.client(), "Table", VersionDigits::default()).with_clock(clock)
}

fn entity() -> EntityId {
    EntityId::new("E").unwrap()
}

fn item(key: &str) -> Value {
    json!({"PK": {"S": "E"}, "SK": {"S": key}, "TTL": {"N": TTL.to_string()}})
}

fn page() -> Value {
    json!({"Items": [item("v1")], "Count": 1, "ScannedCount": 1})
}

#[tokio::test]
async fn items_expire_by_the_clock_of_the_store() {
    for (second, is_expired) in [(TTL - 1, false), (TTL, true)] {
        let replay = Replay::new([page(), page()]);
        let store = store(&replay, second);
        let newest = store.newest_in_history(&entity(), true).await.unwrap();
        assert_eq!(newest.is_none(), is_expired, "newest_in_history at {second}");
        let has_history = store.has_history(&entity(), true).await.unwrap();
        assert_eq!(!has_history, is_expired, "has_history at {second}");
    }
}

#[tokio::test]
async fn versions_expire_by_the_clock_of_the_store() {
    let latest = json!({"Item": {"PK": {"S": "E"}, "SK": {"S": "v0"}, "Latest": {"N": "2"}}});
    for (second, is_found) in [(TTL - 1, true), (TTL, false)] {
        let replay = Replay::new([json!({"Item": item("v1")}), latest.clone(), json!({}), json!({})]);
        let read = store(&replay, second).version(&entity(), Version::FIRST, true).await;
        assert_eq!(matches!(read, Ok(Some(_))), is_found, "at {second}");
    }
}

#[tokio::test(start_paused = true)]
async fn unprocessed_keys_are_requested_again() {
    let item = |key: &str| json!({"PK": {"S": "E"}, "SK": {"S": key}});
    let left = |keys: &[&str]| {
        let keys: Vec<_> = keys.iter().map(|key| item(key)).collect();
        json!({"Table": {"Keys": keys}})
    };
    let replay = Replay::new([
        json!({"Responses": {"Table": [item("v1")]}, "UnprocessedKeys": left(&["v2", "v3"])}),
        json!({"Responses": {"Table": []}, "UnprocessedKeys": left(&["v2", "v3"])}),
        json!({"Responses": {"Table": [item("v3"), item("v2")]}, "UnprocessedKeys": {}}),
    ]);
    let reading = store(&replay, 0);
    let keys = ["v1", "v2", "v3"].map(str::to_owned);
    assert_eq!(reading.batch_get(&entity(), &keys, true).await.unwrap().len(), 3);
    let last = replay.bodies().pop().unwrap();
    assert_eq!(last["RequestItems"]["Table"]["Keys"].as_array().unwrap().len(), 2);

    // Keys that stay unprocessed are throttled.
    let nothing = json!({"Responses": {}, "UnprocessedKeys": left(&["v1"])});
    let replay = Replay::new(vec![nothing; 20]);
    let reading = store(&replay, 0);
    let error = reading.batch_get(&entity(), &keys[..1], true).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Throttled);
}
