//! Requests of the writer to a DynamoDB that fails, with replayed responses.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the message")]

use std::time::Duration;

use lambda_runtime::Diagnostic;
use serde_json::{Value, json, value::RawValue};
use shared::clock::Deadline;
use testkit::replay::{self, NeverClient, Replay};
use writer_fn::Writer;

fn writer(http: impl aws_sdk_dynamodb::config::HttpClient + 'static) -> Writer {
    Writer::new(replay::client(http), &replay::settings())
}

fn error(code: &str) -> Value {
    json!({"__type": format!("com.amazonaws.dynamodb.v20120810#{code}"), "message": "secret"})
}

async fn handle(writer: &Writer, event: Value) -> Value {
    let event = RawValue::from_string(event.to_string()).unwrap();
    let deadline = Deadline::after(Duration::from_secs(30));
    match writer.handle(&event, "request-1", deadline).await {
        Ok(response) => serde_json::to_value(response).unwrap(),
        Err(error) => {
            assert!(!format!("{error:?}").contains("secret"), "{error:?}");
            serde_json::to_value(Diagnostic::from(error)).unwrap()
        }
    }
}

/// The response to the first attempt is lost after it took effect. The second attempt finds the update's own `RequestId`.
#[tokio::test(start_paused = true)]
async fn a_retry_creates_no_second_version() {
    let mut rejected = error("ConditionalCheckFailedException");
    rejected["Item"] = json!({"Latest": {"N": "7"}, "RequestId": {"S": "request-1"}, "A": {"S": "secret"}});
    let replay = Replay::new([error("InternalServerError"), rejected]);
    let response = handle(&writer(replay.http()), json!({"ID": "E", "A": "secret"})).await;
    assert_eq!(response, json!({"ID": "E", "Version": 7, "Outcome": "Duplicate"}));
    let bodies = replay.bodies();
    assert_eq!(bodies.len(), 2);
    let request = |body: &Value| body["ExpressionAttributeValues"][":request"].clone();
    assert_eq!(request(&bodies[0]), request(&bodies[1]));
    // Only the second attempt requires that the recent requests reach back to the first.
    let guarded = |body: &Value| {
        body["ConditionExpression"]
            .as_str()
            .unwrap()
            .contains("#since <= :sent")
    };
    assert!(!guarded(&bodies[0]) && guarded(&bodies[1]));
}

#[tokio::test(start_paused = true)]
async fn each_dynamodb_error_has_its_error_type() {
    for (code, attempts, error_type) in [
        ("ProvisionedThroughputExceededException", 3, "Throttled"),
        ("ThrottlingException", 3, "Throttled"),
        ("RequestLimitExceeded", 3, "Throttled"),
        ("TransactionConflictException", 3, "Throttled"),
        ("InternalServerError", 3, "Internal"),
        ("ResourceNotFoundException", 1, "Internal"),
        ("AccessDeniedException", 1, "Internal"),
        ("ValidationException", 1, "InvalidEvent"),
    ] {
        let replay = Replay::new(vec![error(code); 3]);
        let response = handle(&writer(replay.http()), json!({"ID": "E"})).await;
        assert_eq!(response["errorType"], error_type, "{code}");
        assert!(response["errorMessage"].as_str().unwrap().contains(code), "{response}");
        assert_eq!(replay.requests().len(), attempts, "{code}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_hanging_table_fails_before_the_function_times_out() {
    let start = tokio::time::Instant::now();
    let response = handle(&writer(NeverClient::new()), json!({"ID": "E"})).await;
    assert_eq!(response["errorType"], "Internal");
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_batch_starts_no_message_near_the_deadline() {
    let message = |n: usize| json!({"messageId": n.to_string(), "body": json!({"ID": "E"}).to_string()});
    let batch = json!({"Records": (1..=20).map(message).collect::<Vec<_>>()});
    let http = NeverClient::new();
    let start = tokio::time::Instant::now();
    let response = handle(&writer(http), batch).await;
    assert_eq!(response["batchItemFailures"].as_array().unwrap().len(), 20);
    // One entity, 8 s a message at most: without the deadline it would have been 160 s.
    assert!(start.elapsed() < Duration::from_secs(36), "{:?}", start.elapsed());
}
