//! Requests of stream-fn for an attached table, with replayed responses.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the message")]

use std::time::Duration;

use serde_json::{Value, json, value::RawValue};
use shared::{clock::Deadline, config::Config, domain::attached::AttachedTable};
use stream_fn::HistoryWriter;
use testkit::replay::{self, Replay};

const LEFT: Duration = Duration::from_secs(60);
const DEFINITION: &str = r#"{
    "TableName": "Orders",
    "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
    "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}]
}"#;

fn settings() -> Config {
    Config {
        attached: Some(AttachedTable::parse(DEFINITION).unwrap()),
        ..replay::settings()
    }
}

fn record(id: &str, number: u64, old: Option<u64>, new: u64) -> Value {
    let image = |state: u64| json!({"id": {"S": id}, "state": {"N": state.to_string()}});
    let mut change = json!({
        "Keys": {"id": {"S": id}}, "NewImage": image(new), "SequenceNumber": number.to_string(),
        "StreamViewType": "NEW_AND_OLD_IMAGES", "ApproximateCreationDateTime": shared::clock::since_epoch().as_secs(),
    });
    if let Some(old) = old {
        change["OldImage"] = image(old);
    }
    let event = if old.is_some() { "MODIFY" } else { "INSERT" };
    let arn = "arn:aws:dynamodb:eu-west-1:123456789012:table/Orders/stream/2026-11-22T06:24:48.123";
    json!({"eventName": event, "eventSourceARN": arn, "dynamodb": change})
}

/// Returns the sequence numbers of the failed records.
async fn failed(writer: &HistoryWriter, records: &[Value], left: Duration) -> Vec<String> {
    let event = RawValue::from_string(json!({"Records": records}).to_string()).unwrap();
    let response = writer.handle(&event, "lambda", Deadline::after(left)).await.unwrap();
    let failures = response.batch_item_failures.into_iter();
    failures.map(|failure| failure.item_identifier.unwrap()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_failure_ends_the_later_records_of_its_item() {
    let response = |statements: Value| json!({"Responses": statements});
    let throttled = || json!({"Error": {"Code": "ThrottlingError", "Message": "x"}});
    let empty = || json!({"Items": [], "Count": 0});
    // One item is throttled, in each attempt.
    let mut responses = vec![empty(), empty(), response(json!([throttled(), {}]))];
    responses.extend((0..20).map(|_| response(json!([throttled()]))));
    let replay = Replay::new(responses);
    let writer = HistoryWriter::new(replay.client(), &settings());
    let records = [
        record("a", 1, None, 1),
        record("b", 2, None, 1),
        record("a", 3, Some(1), 2),
    ];
    let failures = failed(&writer, &records, LEFT).await;
    assert_eq!(failures, ["1", "3"]);
    // The last record is not processed: it would be ahead of the first one.
    let reads = replay
        .operations()
        .iter()
        .filter(|operation| *operation == "Query")
        .count();
    assert_eq!(reads, 2);
    // Without time, nothing is sent.
    let replay = Replay::new([]);
    let writer = HistoryWriter::new(replay.client(), &settings());
    assert_eq!(failed(&writer, &records, Duration::ZERO).await, ["1", "2", "3"]);
    assert_eq!(replay.requests().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_version_that_others_take_each_time_is_retried_later() {
    let taken = json!({"Responses": [{"Error": {"Code": "DuplicateItem", "Message": "x"}}]});
    let responses = (0..5).flat_map(|_| [json!({"Items": [], "Count": 0}), taken.clone()]);
    let replay = Replay::new(responses);
    let writer = HistoryWriter::new(replay.client(), &settings());
    let failures = failed(&writer, &[record("a", 1, None, 1)], LEFT).await;
    assert_eq!(failures, ["1"]);
    let requests = replay.requests();
    let reads = requests.iter().filter(|(operation, _)| operation == "Query");
    let consistent: Vec<_> = reads.map(|(_, body)| body["ConsistentRead"].clone()).collect();
    assert_eq!(consistent, [false, true, true, true, true]);
}

#[tokio::test(start_paused = true)]
async fn a_state_that_is_too_large_is_quarantined_without_an_insert() {
    let replay = Replay::new([json!({"Items": [], "Count": 0}), json!({})]);
    let writer = HistoryWriter::new(replay.client(), &settings());
    let mut large = record("a", 1, None, 1);
    large["dynamodb"]["NewImage"]["text"] = json!({"S": "x".repeat(409_500)});
    assert_eq!(failed(&writer, &[large], LEFT).await, [""; 0]);
    assert_eq!(replay.operations(), ["Query", "ExecuteTransaction"]);
}

#[tokio::test(start_paused = true)]
async fn versions_that_are_rejected_together_are_sent_alone() {
    let empty = json!({"Items": [], "Count": 0});
    let rejected = json!({"__type": "ValidationException"});
    let recorded = json!({"Responses": [{}]});
    let replay = Replay::new([empty.clone(), empty, rejected.clone(), recorded, rejected, json!({})]);
    let writer = HistoryWriter::new(replay.client(), &settings());
    let records = [record("a", 1, None, 1), record("b", 2, None, 1)];
    assert_eq!(failed(&writer, &records, LEFT).await, [""; 0]);
    let operations = replay.operations();
    let insert = "BatchExecuteStatement";
    assert_eq!(
        operations,
        ["Query", "Query", insert, insert, insert, "ExecuteTransaction"]
    );
}
