//! Requests of the writer to a DynamoDB that fails, by replayed responses.

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

async fn handled(writer: &Writer, event: Value) -> Value {
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

/// The answer to the first attempt is lost after it took effect. The second meets the update's own `RequestId`.
#[tokio::test(start_paused = true)]
async fn a_retry_by_the_sdk_does_not_count_twice() {
    let mut refused = error("ConditionalCheckFailedException");
    refused["Item"] = json!({"Latest": {"N": "7"}, "RequestId": {"S": "request-1"}, "A": {"S": "secret"}});
    let replay = Replay::new([error("InternalServerError"), refused]);
    let answer = handled(&writer(replay.http()), json!({"ID": "E", "A": "secret"})).await;
    assert_eq!(answer, json!({"ID": "E", "Version": 7, "Outcome": "Duplicate"}));
    let bodies = replay.bodies();
    assert_eq!(bodies.len(), 2);
    assert_eq!(bodies[0], bodies[1], "both attempts carry the same RequestId");
}

#[tokio::test(start_paused = true)]
async fn each_failure_of_the_table_has_its_error_type() {
    for (code, attempts, error_type) in [
        ("ProvisionedThroughputExceededException", 3, "Throttled"),
        ("ThrottlingException", 3, "Throttled"),
        ("RequestLimitExceeded", 3, "Throttled"),
        ("TransactionConflictException", 1, "Throttled"),
        ("InternalServerError", 3, "Internal"),
        ("ResourceNotFoundException", 1, "Internal"),
        ("AccessDeniedException", 1, "Internal"),
        ("ValidationException", 1, "InvalidEvent"),
    ] {
        let replay = Replay::new(vec![error(code); 3]);
        let answer = handled(&writer(replay.http()), json!({"ID": "E"})).await;
        assert_eq!(answer["errorType"], error_type, "{code}");
        assert!(answer["errorMessage"].as_str().unwrap().contains(code), "{answer}");
        assert_eq!(replay.requests().len(), attempts, "{code}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_table_that_hangs_is_given_up_before_the_function_is() {
    let began = tokio::time::Instant::now();
    let answer = handled(&writer(NeverClient::new()), json!({"ID": "E"})).await;
    assert_eq!(answer["errorType"], "Internal");
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn near_the_deadline_a_batch_starts_nothing_new() {
    let message = |n: usize| json!({"messageId": n.to_string(), "body": json!({"ID": "E"}).to_string()});
    let batch = json!({"Records": (1..=20).map(message).collect::<Vec<_>>()});
    let http = NeverClient::new();
    let began = tokio::time::Instant::now();
    let answer = handled(&writer(http), batch).await;
    assert_eq!(answer["batchItemFailures"].as_array().unwrap().len(), 20);
    // One entity, 8 s a message at most: without the deadline it would have been 160 s.
    assert!(began.elapsed() < Duration::from_secs(36), "{:?}", began.elapsed());
}
