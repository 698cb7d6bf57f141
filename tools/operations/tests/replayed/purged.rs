//! Requests of stream-fn for versions of purged entities, with replayed responses.

use std::time::Duration;

use operations::purge::entity::{ItemCounts, purge};
use serde_json::{Value, json};
use shared::{
    clock::{Clock, Deadline},
    domain::{entity::EntityId, keys::VersionDigits, recorded_at::RecordedAt},
    dynamodb::Store,
};
use stream_fn::HistoryWriter;
use testkit::replay::{self, Replay};

/// Time of the function's clock, in seconds since 1970.
const NOW: u64 = 1_795_328_688;

fn time(second: u64) -> String {
    RecordedAt::since_epoch(Duration::from_secs(second)).to_string()
}

/// Time of the purge.
const PURGED: u64 = NOW - 100;

/// Returns the record of an update that was recorded at this second, of another incarnation after the purge.
fn record(number: u64, entity: &str, second: u64) -> Value {
    let keys = json!({"PK": {"S": entity}, "SK": {"S": "v0"}});
    let mut image = keys.clone();
    image["Latest"] = json!({"N": number.to_string()});
    image["RecordedVersion"] = image["Latest"].clone();
    image["RecordedAt"] = json!({"S": time(second)});
    image["V0Id"] = json!({"S": if second < PURGED { "purged" } else { "later" }});
    let change = json!({
        "Keys": keys, "NewImage": image, "SequenceNumber": number.to_string(), "ApproximateCreationDateTime": second,
    });
    json!({"eventName": "MODIFY", "dynamodb": change})
}

/// Returns the marker of the purge of version 7.
async fn marker(entity: &str) -> Value {
    let latest = json!({"Item": {
        "PK": {"S": entity}, "SK": {"S": "v0"}, "Latest": {"N": "7"}, "RecordedAt": {"S": time(PURGED - 10)},
        "V0Id": {"S": "purged"},
    }});
    let replay = Replay::new([latest, json!({"Items": []}), json!({}), json!({})]);
    let clock = Clock::new(|| Duration::from_secs(PURGED));
    let store = Store::new(replay.client(), "Table", VersionDigits::default()).with_clock(clock);
    let entity = EntityId::new(entity).unwrap();
    // It stops after the marker, because there are no more responses.
    let _ = purge(&store, &entity, Duration::ZERO, |_| {}, &mut ItemCounts::new()).await;
    replay.bodies()[3]["Item"].clone()
}

/// Handles records at `NOW`, and returns the failed ones and the requests.
async fn handle(records: &[Value], responses: &[Value]) -> (Vec<String>, Vec<(String, Value)>) {
    let replay = Replay::new(responses.iter().cloned());
    let clock = Clock::new(|| Duration::from_secs(NOW));
    let writer = HistoryWriter::new(replay::client(replay.http()), &replay::settings())
        .with_checked_layout()
        .with_clock(clock);
    let event = json!({"Records": records}).to_string();
    let deadline = Deadline::after(Duration::from_secs(60));
    let response = writer.handle(&event, "lambda", deadline).await.unwrap();
    let failures = response.batch_item_failures.into_iter();
    let failed = failures.map(|failure| failure.item_identifier.unwrap()).collect();
    (failed, replay.requests())
}

fn operations(requests: &[(String, Value)]) -> Vec<&str> {
    requests.iter().map(|(operation, _)| operation.as_str()).collect()
}

fn markers(markers: &[Value]) -> Value {
    json!({"Responses": {"Table": markers}, "UnprocessedKeys": {}})
}

#[tokio::test(start_paused = true)]
async fn a_fresh_record_needs_no_other_request() {
    for age in [0, 19] {
        let (failed, requests) = handle(&[record(1, "E", NOW - age)], &[json!({})]).await;
        assert_eq!((failed.len(), operations(&requests)), (0, vec!["PutItem"]), "{age}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_late_version_of_a_purged_entity_is_not_put() {
    let purged = marker("E").await;
    let (failed, requests) = handle(&[record(7, "E", NOW - 110)], &[markers(std::slice::from_ref(&purged))]).await;
    assert_eq!((failed.len(), operations(&requests)), (0, vec!["BatchGetItem"]));
    let keys = &requests[0].1["RequestItems"]["Table"];
    assert_eq!(keys["ConsistentRead"], true);
    assert_eq!(
        keys["Keys"],
        json!([{"PK": purged["PK"], "SK": purged["SK"]}, {"PK": {"S": "E"}, "SK": {"S": "floor"}}])
    );
    // A later entity with the same key, and entities that were never purged.
    for (record, found) in [
        (record(1, "E", NOW - 50), markers(&[purged])),
        (record(1, "F", NOW - 110), markers(&[])),
    ] {
        let (failed, requests) = handle(&[record], &[found, json!({})]).await;
        assert_eq!(
            (failed.len(), operations(&requests)),
            (0, vec!["BatchGetItem", "PutItem"])
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_late_version_below_the_floor_is_not_put_again() {
    let floor = |floor: u64| json!({"PK": {"S": "E"}, "SK": {"S": "floor"}, "Floor": {"N": floor.to_string()}});
    let late = record(7, "E", NOW - 110);
    let mut stored = late["dynamodb"]["NewImage"].clone();
    stored["SK"] = json!({"S": "v7"});
    for name in ["Latest", "RecordedVersion"] {
        stored.as_object_mut().unwrap().remove(name);
    }
    for (floor, found, expected) in [
        // DynamoDB deleted it.
        (floor(8), Some(json!({})), vec!["BatchGetItem", "GetItem"]),
        // It is pinned, or not expired.
        (floor(8), Some(json!({"Item": stored})), vec!["BatchGetItem", "GetItem"]),
        (floor(7), None, vec!["BatchGetItem", "PutItem"]),
    ] {
        let responses: Vec<_> = std::iter::once(markers(&[floor]))
            .chain(found)
            .chain([json!({})])
            .collect();
        let (failed, requests) = handle(std::slice::from_ref(&late), &responses).await;
        assert_eq!((failed.len(), operations(&requests)), (0, expected));
    }
    // A different item is a conflict, and not lost.
    stored["A"] = json!({"S": "other"});
    let responses = [markers(&[floor(8)]), json!({"Item": stored}), json!({})];
    let (failed, requests) = handle(&[late], &responses).await;
    assert_eq!(failed.len(), 0);
    assert_eq!(operations(&requests), ["BatchGetItem", "GetItem", "TransactWriteItems"]);
}

/// Otherwise, quarantine would keep the data of a purged entity.
#[tokio::test(start_paused = true)]
async fn a_late_record_of_a_purged_entity_is_not_quarantined() {
    let purged = marker("E").await;
    let malformed = |second: u64| {
        let mut record = record(7, "E", second);
        record["dynamodb"]["NewImage"]["Latest"] = json!({"S": "seven"});
        record
    };
    let (failed, requests) = handle(&[malformed(NOW - 110)], &[markers(std::slice::from_ref(&purged))]).await;
    assert_eq!((failed.len(), operations(&requests)), (0, vec!["BatchGetItem"]));
    for (second, found) in [(NOW - 50, markers(&[purged])), (NOW - 110, markers(&[]))] {
        let (failed, requests) = handle(&[malformed(second)], &[found, json!({})]).await;
        assert_eq!(
            (failed.len(), operations(&requests)),
            (0, vec!["BatchGetItem", "TransactWriteItems"])
        );
    }
}

#[tokio::test(start_paused = true)]
async fn the_markers_of_a_chunk_are_read_once() {
    let purged = marker("E").await;
    let records = [
        record(1, "E", NOW - 110),
        record(2, "E", NOW - 110),
        record(3, "F", NOW - 110),
        record(4, "G", NOW),
    ];
    let put = json!({"Responses": [{"TableName": "Table"}, {"TableName": "Table"}]});
    let (failed, requests) = handle(&records, &[markers(&[purged]), put]).await;
    assert_eq!(
        (failed.len(), operations(&requests)),
        (0, vec!["BatchGetItem", "BatchExecuteStatement"])
    );
    let keys = &requests[0].1["RequestItems"]["Table"]["Keys"];
    // The marker and the floor of two entities.
    assert_eq!(keys.as_array().unwrap().len(), 4);
    assert_eq!(requests[1].1["Statements"].as_array().unwrap().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn without_the_marker_the_record_fails_and_is_retried() {
    let invalid = json!({"PK": marker("E").await["PK"], "SK": {"S": "purged"}, "PurgedAt": {"S": "yesterday"}});
    for response in [
        json!({"__type": "InternalServerError"}),
        json!({"__type": "AccessDeniedException"}),
        json!({"__type": "ThrottlingException"}),
        markers(&[invalid]),
    ] {
        let mut responses = vec![response.clone(); 9];
        responses.insert(0, json!({"__type": "InternalServerError"}));
        let (failed, requests) = handle(&[record(7, "E", NOW - 110)], &responses).await;
        assert_eq!(failed, ["7"], "{response}");
        let is_read = |operation: &&str| *operation == "BatchGetItem";
        assert!(operations(&requests).iter().all(is_read), "{requests:?}");
    }
    // A fresh record of the same batch is put.
    let lost = vec![json!({"__type": "AccessDeniedException"})];
    let records = [record(7, "E", NOW - 110), record(8, "F", NOW)];
    let (failed, requests) = handle(&records, &[lost, vec![json!({})]].concat()).await;
    assert_eq!(
        (failed, operations(&requests)),
        (vec!["7".to_owned()], vec!["BatchGetItem", "PutItem"])
    );
}
