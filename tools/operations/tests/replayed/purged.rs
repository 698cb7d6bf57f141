//! Requests of stream-fn for versions of purged entities, with replayed responses.

use std::time::Duration;

use operations::purge::Purge;
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
/// Time of the purge.
const PURGED: u64 = NOW - 100;
/// Second of a record that is checked, from before the purge, and of one of another incarnation after the purge.
const LATE: u64 = PURGED - 10;
const LATER: u64 = PURGED + 50;

fn time(second: u64) -> String {
    RecordedAt::since_epoch(Duration::from_secs(second)).to_string()
}

/// Returns the record of an update that was recorded at this second.
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

fn malformed(second: u64) -> Value {
    let mut record = record(7, "E", second);
    record["dynamodb"]["NewImage"]["Latest"] = json!({"S": "seven"});
    record
}

/// Returns the marker of the purge of version 7 of `E`.
async fn marker() -> Value {
    let latest = json!({"Item": {
        "PK": {"S": "E"}, "SK": {"S": "v0"}, "Latest": {"N": "7"}, "RecordedAt": {"S": time(LATE)},
        "V0Id": {"S": "purged"},
    }});
    let replay = Replay::new([json!({}), latest, json!({"Items": []}), json!({}), json!({})]);
    let clock = Clock::new(|| Duration::from_secs(PURGED));
    let store = Store::new(replay.client(), "Table", VersionDigits::default()).with_clock(clock);
    let entity = EntityId::new("E").unwrap();
    // It stops after the marker, because there are no more responses.
    let _ = Purge::new(&store, entity).run(Duration::ZERO, |_| {}).await;
    replay.bodies()[4]["Item"].clone()
}

/// Handles records at `NOW`, compares the operations and the failed records, and returns the requests.
async fn handle(records: &[Value], responses: Vec<Value>, operations: &[&str], failed: &[&str]) -> Vec<Value> {
    let replay = Replay::new(responses);
    let clock = Clock::new(|| Duration::from_secs(NOW));
    let writer = HistoryWriter::new(replay::client(replay.http()), &replay::settings())
        .with_checked_layout()
        .with_clock(clock);
    let event = json!({"Records": records}).to_string();
    let deadline = Deadline::after(Duration::from_secs(60));
    let response = writer.handle(&event, "lambda", deadline).await.unwrap();
    let failures = response.batch_item_failures.into_iter();
    let failures: Vec<_> = failures.map(|failure| failure.item_identifier.unwrap()).collect();
    assert_eq!(
        (replay.operations(), failures),
        (
            operations.iter().map(ToString::to_string).collect(),
            failed.iter().map(ToString::to_string).collect()
        ),
        "{records:?}"
    );
    replay.bodies()
}

fn markers(markers: &[Value]) -> Value {
    json!({"Responses": {"Table": markers}, "UnprocessedKeys": {}})
}

#[tokio::test(start_paused = true)]
async fn only_late_records_need_the_marker() {
    let (purged, none) = (markers(&[marker().await]), markers(&[]));
    let (checked, put, quarantined) = ("BatchGetItem", "PutItem", "TransactWriteItems");
    for (record, marker, expected) in [
        (record(1, "E", NOW), None, vec![put]),
        (record(1, "E", NOW - 19), None, vec![put]),
        (record(7, "E", LATE), Some(&purged), vec![checked]),
        // A later entity with the same key, and entities that were never purged.
        (record(1, "E", LATER), Some(&purged), vec![checked, put]),
        (record(1, "F", LATE), Some(&none), vec![checked, put]),
        // Otherwise, quarantine would keep the data of a purged entity.
        (malformed(LATE), Some(&purged), vec![checked]),
        (malformed(LATER), Some(&purged), vec![checked, quarantined]),
        (malformed(LATE), Some(&none), vec![checked, quarantined]),
    ] {
        let responses = marker.into_iter().cloned().chain([json!({})]).collect();
        handle(&[record], responses, &expected, &[]).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_late_version_below_the_floor_is_not_put_again() {
    let floor = |floor: u64| json!({"PK": {"S": "E"}, "SK": {"S": "floor"}, "Floor": {"N": floor.to_string()}});
    let late = record(7, "E", LATE);
    let mut stored = late["dynamodb"]["NewImage"].clone();
    stored["SK"] = json!({"S": "v7"});
    for name in ["Latest", "RecordedVersion"] {
        stored.as_object_mut().unwrap().remove(name);
    }
    let mut different = stored.clone();
    different["A"] = json!({"S": "other"});
    let (checked, read) = ("BatchGetItem", "GetItem");
    for (floor, found, expected) in [
        // DynamoDB deleted it.
        (floor(8), Some(json!({})), vec![checked, read]),
        // It is pinned, or not expired.
        (floor(8), Some(json!({"Item": stored})), vec![checked, read]),
        (floor(7), None, vec![checked, "PutItem"]),
        // A different item is a conflict, and not lost.
        (
            floor(8),
            Some(json!({"Item": different})),
            vec![checked, read, "TransactWriteItems"],
        ),
    ] {
        let responses = [markers(&[floor])].into_iter().chain(found).chain([json!({})]);
        handle(std::slice::from_ref(&late), responses.collect(), &expected, &[]).await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_markers_of_a_chunk_are_read_once() {
    let purged = marker().await;
    let records = [
        record(1, "E", LATE),
        record(2, "E", LATE),
        record(3, "F", LATE),
        record(4, "G", NOW),
    ];
    let put = json!({"Responses": [{"TableName": "Table"}, {"TableName": "Table"}]});
    let operations = ["BatchGetItem", "BatchExecuteStatement"];
    let requests = handle(
        &records,
        vec![markers(std::slice::from_ref(&purged)), put],
        &operations,
        &[],
    )
    .await;
    let read = &requests[0]["RequestItems"]["Table"];
    assert_eq!(read["ConsistentRead"], true);
    // The marker and the floor of two entities.
    let keys = read["Keys"].as_array().unwrap();
    assert_eq!(keys.len(), 4);
    for key in [
        json!({"PK": purged["PK"], "SK": purged["SK"]}),
        json!({"PK": {"S": "E"}, "SK": {"S": "floor"}}),
    ] {
        assert!(keys.contains(&key), "{key}");
    }
    assert_eq!(requests[1]["Statements"].as_array().unwrap().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn without_the_marker_the_record_fails_and_is_retried() {
    let invalid = json!({"PK": marker().await["PK"], "SK": {"S": "purged"}, "PurgedAt": {"S": "yesterday"}});
    let lost = json!({"__type": "InternalServerError"});
    for (response, attempts) in [
        (lost.clone(), 3),
        (json!({"__type": "AccessDeniedException"}), 2),
        (json!({"__type": "ThrottlingException"}), 3),
        (markers(&[invalid]), 2),
    ] {
        let responses = [vec![lost.clone()], vec![response.clone(); 9]].concat();
        handle(
            &[record(7, "E", LATE)],
            responses,
            &vec!["BatchGetItem"; attempts],
            &["7"],
        )
        .await;
    }
    // A fresh record of the same batch is put.
    let responses = vec![json!({"__type": "AccessDeniedException"}), json!({})];
    let records = [record(7, "E", LATE), record(8, "F", NOW)];
    handle(&records, responses, &["BatchGetItem", "PutItem"], &["7"]).await;
}
