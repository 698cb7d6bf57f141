//! Requests of stream-fn to a DynamoDB that fails, with replayed responses.

use std::time::Duration;

use serde_json::{Value, json};
use shared::{clock::Deadline, dynamodb::client::ClientSettings};
use stream_fn::HistoryWriter;
use testkit::replay::{self, NeverClient, Replay};

use super::{LEFT, latest_keys, record, writer};

fn records(count: usize) -> Vec<Value> {
    let record = |n: usize| {
        let attributes = json!({"Latest": {"N": "1"}, "A": {"S": "secret"}});
        record(&n.to_string(), &latest_keys(&n.to_string()), &attributes)
    };
    (1..=count).map(record).collect()
}

fn batch(count: usize) -> String {
    super::batch(&records(count))
}

async fn failed(writer: &HistoryWriter, count: usize, left: Duration) -> Vec<String> {
    super::failed(writer, &records(count), left).await
}

#[tokio::test(start_paused = true)]
async fn unfinished_records_are_returned_in_order() {
    for (records, left) in [1, 500]
        .into_iter()
        .flat_map(|records| [0, 1, 5, 60].map(|left| (records, left)))
    {
        let expected: Vec<_> = (1..=records).map(|n| n.to_string()).collect();
        let start = tokio::time::Instant::now();
        let left = Duration::from_secs(left);
        let writer = writer(NeverClient::new());
        assert_eq!(failed(&writer, records, left).await, expected);
        assert!(
            start.elapsed() <= left,
            "{records} returned after {:?} of {left:?}",
            start.elapsed()
        );
    }
}

#[tokio::test(start_paused = true)]
async fn no_request_starts_without_time_left() {
    let deadline = Deadline {
        start_by: tokio::time::Instant::now(),
        finish_by: tokio::time::Instant::now() + LEFT,
    };
    for records in [1, 3] {
        let replay = Replay::new(vec![json!({}), batch_response(&["", "", ""])]);
        let response = writer(replay.http())
            .handle(&batch(records), "lambda", deadline)
            .await
            .unwrap();
        assert_eq!(
            (response.batch_item_failures.len(), replay.requests().len()),
            (records, 0)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn requests_and_statements_have_the_attempts_of_the_settings() {
    for max_attempts in [1, 2, 10] {
        let settings = ClientSettings {
            max_attempts,
            ..ClientSettings::default()
        };
        let throttled = batch_response(&["ThrottlingError"; 2]);
        for (records, response) in [(1, lost()), (2, lost()), (2, throttled)] {
            let replay = Replay::new(vec![response; 12]);
            let writer = HistoryWriter::new(replay::client_with(&settings, replay.http()), &replay::settings())
                .with_checked_layout();
            assert_eq!(failed(&writer, records, LEFT).await.len(), records);
            assert_eq!(
                replay.requests().len(),
                max_attempts as usize,
                "{records} {max_attempts}"
            );
        }
    }
}

fn lost() -> Value {
    json!({"__type": "InternalServerError"})
}

fn own(n: u32) -> Value {
    json!({"PK": {"S": n.to_string()}, "SK": {"S": "v1"}, "A": {"S": "secret"}})
}

fn other(n: u32) -> Value {
    let mut other = own(n);
    other["A"] = json!({"S": "other"});
    other
}

#[tokio::test(start_paused = true)]
async fn a_put_whose_response_was_lost_is_already_recorded() {
    let rejected = |stored: Value| {
        let kind = "com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException";
        json!({"__type": kind, "message": "rejected", "Item": stored})
    };
    let replay = Replay::new(vec![lost(), rejected(own(1))]);
    assert!(failed(&writer(replay.http()), 1, LEFT).await.is_empty());
    let replay = Replay::new(vec![lost(), rejected(other(1))]);
    assert_eq!(failed(&writer(replay.http()), 1, LEFT).await, ["1"]);
}

/// Returns the response to a batch: an error code for each failed statement, `""` for each other one.
fn batch_response(codes: &[&str]) -> Value {
    let response = |code: &&str| match *code {
        "" => json!({"TableName": "Table"}),
        code => json!({"Error": {"Code": code, "Message": "secret"}}),
    };
    let responses: Vec<_> = codes.iter().map(response).collect();
    json!({"Responses": responses})
}

fn found(items: &[Value]) -> Value {
    json!({"Responses": {"Table": items}, "UnprocessedKeys": {}})
}

/// Returns the texts at this place of the elements, one after the other.
fn texts(elements: &Value, pointer: &str) -> String {
    let elements = elements.as_array().unwrap().iter();
    elements
        .map(|element| element.pointer(pointer).unwrap().as_str().unwrap())
        .collect()
}

/// Handles this many records, and returns the failed ones and the requests: each its operation, and its partition keys in order.
async fn handle(records: usize, events: Vec<Value>) -> (Vec<String>, Vec<String>) {
    let replay = Replay::new(events);
    let failed = failed(&writer(replay.http()), records, LEFT).await;
    let sent = replay.requests().into_iter().map(|(target, body)| {
        let keys: String = match target.as_str() {
            "BatchExecuteStatement" => texts(&body["Statements"], "/Parameters/1/S"),
            "BatchGetItem" => texts(&body["RequestItems"]["Table"]["Keys"], "/PK/S"),
            _ => body["Item"]["PK"]["S"].as_str().unwrap().to_owned(),
        };
        format!("{target} {keys}")
    });
    (failed, sent.collect())
}

const DUPLICATE: &str = "DuplicateItem";

#[tokio::test(start_paused = true)]
async fn a_single_version_is_put() {
    let done = || json!({});
    let (failed, sent) = handle(1, vec![done()]).await;
    assert_eq!((failed.len(), sent.join(", ").as_str()), (0, "PutItem 1"));
    let (failed, sent) = handle(2, vec![batch_response(&["", ""])]).await;
    assert_eq!(
        (failed.len(), sent.join(", ").as_str()),
        (0, "BatchExecuteStatement 12")
    );
    // So is the remainder of chunks of 25.
    let (failed, sent) = handle(26, vec![batch_response(&[""; 25]), done()]).await;
    assert_eq!((failed.len(), sent.len(), &*sent[1]), (0, 2, "PutItem 26"));
    let (failed, sent) = handle(52, [(); 3].map(|()| batch_response(&[""; 25])).into()).await;
    assert_eq!(
        (failed.len(), sent.len(), &*sent[2]),
        (0, 3, "BatchExecuteStatement 5152")
    );
}

#[tokio::test(start_paused = true)]
async fn concurrent_requests_are_limited() {
    let same = super::batch(&vec![records(1).remove(0); 1000]);
    // Each chunk of 25 records with different keys is one request, and so is each record with the same key.
    for (event, max) in [(batch(1000), 16), (same, 128)] {
        let hanging = NeverClient::new();
        let writer = writer(hanging.clone());
        let response = writer
            .handle(&event, "lambda", Deadline::after(Duration::from_millis(500)))
            .await;
        assert_eq!(response.unwrap().batch_item_failures.len(), 1000);
        assert_eq!(hanging.num_calls(), max);
    }
}

#[tokio::test(start_paused = true)]
async fn an_existing_version_is_read_and_compared() {
    // The response to the first attempt was lost. A version that it wrote is equal, the other one is a conflict.
    let events = vec![
        lost(),
        batch_response(&[DUPLICATE, DUPLICATE, ""]),
        found(&[other(2), own(1)]),
    ];
    let (failed, sent) = handle(3, events).await;
    assert_eq!(failed, ["2"]);
    assert_eq!(
        sent.join(", "),
        "BatchExecuteStatement 123, BatchExecuteStatement 123, BatchGetItem 12"
    );
    // A version that is deleted before the read is put individually.
    let events = vec![batch_response(&["", DUPLICATE, DUPLICATE]), found(&[own(3)]), json!({})];
    let (failed, sent) = handle(3, events).await;
    assert!(failed.is_empty());
    assert_eq!(sent.join(", "), "BatchExecuteStatement 123, BatchGetItem 23, PutItem 2");
    // A version that cannot be read fails.
    let denied = json!({"__type": "AccessDeniedException"});
    let (failed, _) = handle(3, vec![batch_response(&["", DUPLICATE, ""]), denied]).await;
    assert_eq!(failed, ["2"]);
}

#[tokio::test(start_paused = true)]
async fn only_a_retry_waits() {
    let rejected = || json!({"__type": "ValidationException"});
    let done = || json!({});
    for (events, waits) in [
        (vec![batch_response(&["", "", ""])], false),
        (vec![batch_response(&["", DUPLICATE, ""]), found(&[own(2)])], false),
        (vec![batch_response(&["", "ValidationError", ""]), done()], false),
        (vec![rejected(), done(), done(), done()], false),
        (
            vec![batch_response(&["", "ThrottlingError", ""]), batch_response(&[""])],
            true,
        ),
    ] {
        let start = tokio::time::Instant::now();
        let (failed, _) = handle(3, events).await;
        assert!(failed.is_empty());
        assert_eq!(start.elapsed() > Duration::ZERO, waits);
    }
}

#[tokio::test(start_paused = true)]
async fn only_transient_errors_are_retried() {
    for code in ["ThrottlingError", "InternalServerError"] {
        let events = vec![
            batch_response(&["", code, code]),
            batch_response(&[code, DUPLICATE]),
            batch_response(&[""]),
            found(&[own(3)]),
        ];
        let (failed, sent) = handle(3, events).await;
        assert!(failed.is_empty(), "{code}");
        assert_eq!(
            sent.join(", "),
            "BatchExecuteStatement 123, BatchExecuteStatement 23, BatchExecuteStatement 2, BatchGetItem 3"
        );
        // Three attempts, as in the SDK.
        let events = vec![
            batch_response(&["", code, ""]),
            batch_response(&[code]),
            batch_response(&[code]),
        ];
        let (failed, sent) = handle(3, events).await;
        assert_eq!((failed, sent.len()), (vec!["2".to_owned()], 3), "{code}");
    }
    let (failed, sent) = handle(3, vec![batch_response(&["", "AccessDenied", ""])]).await;
    assert_eq!((failed, sent.len()), (vec!["2".to_owned()], 1));
}

#[tokio::test(start_paused = true)]
async fn a_rejected_statement_fails_no_other_statement() {
    let done = || json!({});
    let rejected = || json!({"__type": "ValidationException", "message": "secret"});
    // One statement is rejected. A version that is rejected is put again in its compact form.
    let (failed, sent) = handle(
        3,
        vec![batch_response(&["", "ValidationError", ""]), rejected(), rejected()],
    )
    .await;
    assert_eq!(failed, ["2"]);
    assert_eq!(sent.join(", "), "BatchExecuteStatement 123, PutItem 2, PutItem 2");
    // The whole request is rejected.
    let (failed, sent) = handle(3, vec![rejected(), done(), rejected(), rejected(), done()]).await;
    assert_eq!(failed, ["2"]);
    assert_eq!(
        sent.join(", "),
        "BatchExecuteStatement 123, PutItem 1, PutItem 2, PutItem 2, PutItem 3"
    );
}
