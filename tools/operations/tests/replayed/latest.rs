//! Repair of a latest item that a writer changes at the same time.

use std::time::Duration;

use operations::{
    latest::write::{raise_latest, revive_latest},
    read::items::item_collection,
};
use serde_json::{Value, json};
use shared::{
    clock::Clock,
    config::Window,
    domain::{
        entity::EntityId,
        keys::VersionDigits,
        request_id::{RequestHash, RequestId},
        version::Version,
    },
    dynamodb::Store,
};
use testkit::replay::Replay;

/// Returns a store on a DynamoDB that returns these responses, and the requests to it.
fn replaying(responses: impl IntoIterator<Item = Value>) -> (Store, Replay) {
    let replay = Replay::new(responses);
    let store = Store::new(replay.client(), "Table", VersionDigits::default());
    (store, replay)
}

fn version(number: u64) -> Version {
    Version::new(number).unwrap()
}

/// Returns a value of the map of recent requests, with an unknown time.
fn entry(version: u64, check: u32) -> Value {
    json!({"N": format!("{version}.{check:05}{:05}", 0)})
}

fn key(id: &str) -> String {
    RequestHash::of(&RequestId::new(id).unwrap()).key().to_owned()
}

fn v0(latest: &str, request: &str) -> Value {
    json!({"PK": {"S": "E"}, "SK": {"S": "v0"}, "Latest": {"N": latest}, "RequestId": {"S": request}})
}

fn vn(key: &str, request: &str) -> Value {
    json!({"PK": {"S": "E"}, "SK": {"S": key}, "RequestId": {"S": request}})
}

fn versions(items: &[Value]) -> Value {
    json!({"Responses": {"Table": items}})
}

fn rejected(latest: &str) -> Value {
    testkit::replay::rejected(Some(v0(latest, "r")))
}

/// Raises the latest item of E from version 2.
async fn raise(store: &Store, to: u64) -> Option<Value> {
    let entity = EntityId::new("E").unwrap();
    let raised = raise_latest(store, &entity, Some(version(2)), version(to)).await;
    raised.unwrap().map(|raised| serde_json::to_value(raised).unwrap())
}

#[tokio::test]
async fn raise_latest_keeps_the_numbers_of_requests_that_history_does_not_have_yet() {
    let mut stored = v0("2", "r-2");
    stored["RecentRequests"] = json!({"M": {key("r-1"): entry(1, 11), key("r-2"): entry(2, 22)}});
    for (in_history, expected) in [
        // Both records are still in the stream.
        (vec![], entry(1, 11)),
        // The counter was set back: another version has the number.
        (vec![json!({"PK": {"S": "E"}, "SK": {"S": "v1"}})], entry(4, 0)),
        // Its own version, older than the ones that were read before.
        (vec![vn("v1", "r-1")], entry(1, 11)),
    ] {
        let by_another = json!({"PK": {"S": "E"}, "SK": {"S": "v3"}, "By": {"S": "import"}});
        let (store, replay) = replaying([
            json!({"Item": stored}),
            versions(&[by_another]),
            versions(&in_history),
            json!({}),
            json!({"Attributes": v0("4", "r-2")}),
        ]);
        raise(&store, 4).await;
        let requests = &replay.bodies()[4]["ExpressionAttributeValues"][":requests"]["M"];
        assert_eq!(
            [&requests[key("r-1")], &requests[key("r-2")]],
            [&expected, &entry(2, 22)]
        );
    }
}

#[tokio::test]
async fn a_latest_item_is_numbered_once_and_does_not_overtake_a_writer() {
    let lost = json!({"__type": "InternalServerError"});
    let newest = versions(&[vn("v6", "r-6"), vn("v7", "r-7")]);
    let read = || [json!({"Item": v0("2", "r")}), newest.clone(), json!({})];
    let first = read().into_iter().chain([lost, rejected("8")]);
    let (store, replay) = replaying(first.chain(read()).chain([rejected("3")]));
    // The response to the first attempt is lost: the second attempt finds its result.
    assert_eq!(raise(&store, 8).await, Some(v0("8", "r")));
    assert_eq!(raise(&store, 8).await, None);
    let reads = ["GetItem", "BatchGetItem", "GetItem"];
    let expected = [&reads[..], &["UpdateItem"; 2], &reads[..], &["UpdateItem"]].concat();
    assert_eq!(replay.operations(), expected);
    // A recent request maps to the version that it created, and the latest item's own request to the raised version.
    let requests = json!({key("r-6"): entry(6, 0), key("r-7"): entry(7, 0), key("r"): entry(8, 0)});
    assert_eq!(
        replay.bodies()[3]["ExpressionAttributeValues"][":requests"]["M"],
        requests
    );

    let (store, _) = replaying([newest.clone(), rejected("7"), newest, rejected("1")]);
    let latest = serde_json::from_value(v0("7", "r")).unwrap();
    for is_revived in [true, false] {
        let entity = EntityId::new("E").unwrap();
        let revived = revive_latest(&store, &entity, version(7), &latest, Window::default()).await;
        assert_eq!(revived, Ok(is_revived));
    }
}

/// Items expire by the clock of the store.
#[tokio::test]
async fn an_item_collection_has_no_expired_items() {
    const TTL: u64 = 1_000;
    for (second, is_expired) in [(TTL - 1, false), (TTL, true)] {
        let item = json!({"PK": {"S": "E"}, "SK": {"S": "v1"}, "TTL": {"N": TTL.to_string()}});
        let (store, _) = replaying([json!({"Items": [item], "Count": 1, "ScannedCount": 1})]);
        let store = store.with_clock(Clock::new(move || Duration::from_secs(second)));
        let collection = item_collection(&store, &EntityId::new("E").unwrap(), true, |_| {}).await;
        let collection = collection.unwrap();
        let found = (collection.items.is_empty(), collection.expired);
        assert_eq!(found, (is_expired, u64::from(is_expired)), "at {second}");
    }
}
