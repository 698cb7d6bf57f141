//! Requests of the writer to a DynamoDB that fails, with replayed responses.

use std::time::Duration;

use serde_json::{Value, json};
use shared::dynamodb::client::ClientSettings;
use testkit::replay::{NeverClient, Replay, rejected};

use super::{batch, handle, message, writer, writer_with};

fn error(code: &str) -> Value {
    json!({"__type": format!("com.amazonaws.dynamodb.v20120810#{code}"), "message": "secret"})
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
        let response = handle(&writer(replay.http()), &json!({"ID": "E"})).await;
        assert_eq!(response["errorType"], error_type, "{code}");
        assert!(response["errorMessage"].as_str().unwrap().contains(code), "{response}");
        assert_eq!(replay.requests().len(), attempts, "{code}");
    }
}

/// Returns the number of requests for an update that fails with this code.
async fn attempts(settings: &ClientSettings, code: &str) -> usize {
    let replay = Replay::new(vec![error(code); 12]);
    handle(&writer_with(settings, replay.http()), &json!({"ID": "E"})).await;
    replay.requests().len()
}

#[tokio::test(start_paused = true)]
async fn an_update_has_the_attempts_of_the_settings() {
    for max_attempts in [1, 2, 10] {
        let settings = ClientSettings {
            max_attempts,
            ..ClientSettings::default()
        };
        for code in ["ThrottlingException", "InternalServerError"] {
            assert_eq!(attempts(&settings, code).await, max_attempts as usize, "{code}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_operation_timeout_limits_all_attempts_of_an_update() {
    for (attempt, operation, attempts) in [(2000, 8000, 10), (1000, 1000, 3), (700, 1500, 10), (2000, 25_000, 10)] {
        let settings = ClientSettings {
            max_attempts: attempts,
            attempt_timeout: Duration::from_millis(attempt),
            operation_timeout: Duration::from_millis(operation),
            ..ClientSettings::default()
        };
        let start = tokio::time::Instant::now();
        let response = handle(&writer_with(&settings, NeverClient::new()), &json!({"ID": "E"})).await;
        assert_eq!(response["errorType"], "Internal");
        let elapsed = start.elapsed();
        assert!(elapsed <= Duration::from_millis(operation + 1), "{elapsed:?}");
        // The waits between attempts have a bound of one second each.
        let least = operation.min(attempt * u64::from(attempts)).saturating_sub(1000);
        assert!(elapsed >= Duration::from_millis(least), "{elapsed:?}");
    }
}

#[tokio::test]
async fn an_invocation_knows_the_requests_of_the_one_before_unless_it_failed() {
    let requests = (0..18).map(|number| (format!("h{number}"), json!({"N": "18"})));
    let full = json!({
        "Latest": {"N": "18"}, "V0Id": {"S": "q83H"}, "RecentRequests": {"M": requests.collect::<serde_json::Map<_, _>>()},
    });
    let updated = |latest: u64| json!({"Attributes": {"Latest": {"N": latest.to_string()}}});
    for (second, guard) in [(updated(19), ":base"), (error("AccessDeniedException"), ":sent")] {
        let replay = Replay::new([rejected(Some(full.clone())), second, updated(20)]);
        let writer = writer(replay.http());
        for id in ["1", "2"] {
            let message = message(id, r#"{"ID": "E"}"#, &json!({"SentTimestamp": "1795328688000"}));
            handle(&writer, &batch(&[message])).await;
        }
        let values = &replay.bodies()[2]["ExpressionAttributeValues"];
        assert!(values.get(guard).is_some(), "{guard}: {values}");
    }
}
