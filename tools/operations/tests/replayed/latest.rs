//! Repair of a latest item that a writer changes at the same time.

use std::time::Duration;

use operations::{
    latest::{raise_latest::raise_latest, revive_latest::revive_latest},
    read::item_collection::item_collection,
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
fn replaying(responses: &[Value]) -> (Store, Replay) {
    let replay = Replay::new(responses.iter().cloned());
    let store = Store::new(replay.client(), "Table", VersionDigits::default());
    (store, replay)
}

fn version(number: u64) -> Version {
    Version::new(number).unwrap()
}

/// Returns a value of the map of recent requests, with an unknown time.
fn entry(version: u64, check: u32) -> String {
    format!("{version}.{check:05}{:05}", 0)
}

fn v0(latest: &str, request: &str) -> Value {
    json!({"PK": {"S": "E"}, "SK": {"S": "v0"}, "Latest": {"N": latest}, "RequestId": {"S": request}})
}

#[tokio::test]
async fn raise_latest_keeps_the_numbers_of_requests_that_history_does_not_have_yet() {
    let mut stored = v0("2", "r-2");
    let key = |id: &str| RequestHash::of(&RequestId::new(id).unwrap()).key().to_owned();
    stored["RecentRequests"] = json!({"M": {key("r-1"): {"N": entry(1, 11)}, key("r-2"): {"N": entry(2, 22)}}});
    let by_another = json!({"PK": {"S": "E"}, "SK": {"S": "v3"}, "By": {"S": "import"}});
    let versions = |items: &[Value]| json!({"Responses": {"Table": items}});
    let raised = json!({"Attributes": v0("4", "r-2")});
    for (in_history, expected) in [
        // Both records are still in the stream.
        (json!([]), [entry(1, 11), entry(2, 22)]),
        // The counter was set back: another version has the number.
        (
            json!([{"PK": {"S": "E"}, "SK": {"S": "v1"}}]),
            [entry(4, 0), entry(2, 22)],
        ),
        // Its own version, older than the ones that were read before.
        (
            json!([{"PK": {"S": "E"}, "SK": {"S": "v1"}, "RequestId": {"S": "r-1"}}]),
            [entry(1, 11), entry(2, 22)],
        ),
    ] {
        let taken = versions(in_history.as_array().unwrap());
        let (store, replay) = replaying(&[
            versions(std::slice::from_ref(&by_another)),
            json!({"Item": stored}),
            taken,
            json!({}),
            raised.clone(),
        ]);
        let entity = EntityId::new("E").unwrap();
        raise_latest(&store, &entity, Some(version(2)), version(4))
            .await
            .unwrap();
        let requests = &replay.bodies()[4]["ExpressionAttributeValues"][":requests"]["M"];
        let raised = [&requests[key("r-1")]["N"], &requests[key("r-2")]["N"]];
        assert_eq!(raised, expected.each_ref().map(String::as_str));
    }
}

#[tokio::test]
async fn raise_latest_applies_once_and_does_not_overtake_a_writer() {
    let rejected = |latest: &str| json!({"__type": "ConditionalCheckFailedException", "Item": v0(latest, "r")});
    let lost = json!({"__type": "InternalServerError"});
    let version_item =
        |version: &str, request: &str| json!({"PK": {"S": "E"}, "SK": {"S": version}, "RequestId": {"S": request}});
    let versions = json!({"Responses": {"Table": [version_item("v6", "r-6"), version_item("v7", "r-7")]}});
    let stored = json!({"Item": v0("2", "r")});
    let absent = json!({});
    let read = || [versions.clone(), stored.clone(), absent.clone()];
    let responses = [&read()[..], &[lost, rejected("8")], &read()[..], &[rejected("3")]].concat();
    let (store, replay) = replaying(&responses);
    let entity = EntityId::new("E").unwrap();
    // The response to the first attempt is lost: the second attempt finds its result.
    let raised = raise_latest(&store, &entity, Some(version(2)), version(8))
        .await
        .unwrap();
    assert_eq!(serde_json::to_value(raised).unwrap(), v0("8", "r"));
    assert!(
        raise_latest(&store, &entity, Some(version(2)), version(8))
            .await
            .unwrap()
            .is_none()
    );
    let reads = ["BatchGetItem", "GetItem", "GetItem"];
    assert_eq!(
        replay.operations(),
        [&reads[..], &["UpdateItem"; 2], &reads[..], &["UpdateItem"]].concat()
    );
    // A recent request maps to the version that it created, and the latest item's own request to the raised version.
    let raise = &replay.bodies()[3];
    let key = |id: &str| RequestHash::of(&RequestId::new(id).unwrap()).key().to_owned();
    let requests = json!({
        key("r-6"): {"N": entry(6, 0)}, key("r-7"): {"N": entry(7, 0)}, key("r"): {"N": entry(8, 0)},
    });
    assert_eq!(raise["ExpressionAttributeValues"][":requests"]["M"], requests);

    let responses = [&[versions.clone(), rejected("7")][..], &[versions, rejected("1")]].concat();
    let (store, _) = replaying(&responses);
    let latest = serde_json::from_value(v0("7", "r")).unwrap();
    let revived = async || {
        let window = Window::default();
        revive_latest(&store, &entity, version(7), &latest, window)
            .await
            .unwrap()
    };
    assert!(revived().await);
    assert!(!revived().await);
}

/// Items expire by the clock of the store.
#[tokio::test]
async fn an_item_collection_has_no_expired_items() {
    const TTL: u64 = 1_000;
    for (second, is_expired) in [(TTL - 1, false), (TTL, true)] {
        let item = json!({"PK": {"S": "E"}, "SK": {"S": "v1"}, "TTL": {"N": TTL.to_string()}});
        let (store, _) = replaying(&[json!({"Items": [item], "Count": 1, "ScannedCount": 1})]);
        let store = store.with_clock(Clock::new(move || Duration::from_secs(second)));
        let collection = item_collection(&store, &EntityId::new("E").unwrap(), true, |_| {})
            .await
            .unwrap();
        assert_eq!(collection.items.is_empty(), is_expired, "at {second}");
        assert_eq!(collection.expired, u64::from(is_expired), "at {second}");
    }
}
