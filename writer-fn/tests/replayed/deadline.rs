//! Time of the response if DynamoDB hangs or is slow. The response comes before the deadline of the invocation, and names the
//! messages that were not applied.

use std::{collections::BTreeSet, time::Duration};

use aws_sdk_dynamodb::config::HttpClient;
use serde_json::{Value, json};
use shared::{
    config::{Config, Idempotency, Ordering, WriteMode, WriteOptions},
    dynamodb::client::ClientSettings,
};
use testkit::{
    replay::{self, failures},
    scripted::{Reply, Scripted},
};
use tokio::time::Instant;
use writer_fn::Writer;

use super::{TIMEOUT, message};

/// Time that is left at the latest response.
const RESERVED: Duration = Duration::from_millis(500);

/// The default settings, and the longest that are allowed.
fn client_settings() -> [ClientSettings; 2] {
    let longest = Duration::from_secs(25);
    let longest = ClientSettings {
        max_attempts: 10,
        connect_timeout: longest,
        read_timeout: longest,
        attempt_timeout: longest,
        operation_timeout: longest,
    };
    [ClientSettings::default(), longest]
}

/// Each write mode, and the ledger.
fn all_options() -> [WriteOptions; 4] {
    let with = |mode, idempotency| WriteOptions {
        mode,
        idempotency,
        ..WriteOptions::default()
    };
    let recent = Idempotency::default();
    [
        with(WriteMode::Stream, recent),
        with(WriteMode::Inline, recent),
        with(WriteMode::Transaction, recent),
        with(WriteMode::Stream, Idempotency::Ledger),
    ]
}

fn writer(http: impl HttpClient + 'static, settings: &ClientSettings, write: WriteOptions) -> Writer {
    let config = Config {
        write,
        // A failure does not stop the later updates of its entity.
        ordering: Ordering::Time,
        ..replay::settings()
    };
    Writer::new(replay::client_with(settings, http), &config).with_checked_layout()
}

/// A batch of updates, the entity of each given by its number.
fn batch(messages: usize, entity: impl Fn(usize) -> usize) -> Value {
    let numbered = |number: usize| {
        let body = json!({"ID": format!("E{}", entity(number)), "RequestId": number.to_string(), "Timestamp": number});
        // It was received before, so that the writer searches for an earlier delivery.
        let attributes = json!({"ApproximateReceiveCount": "2", "ApproximateFirstReceiveTimestamp": "1000"});
        message(&number.to_string(), &body.to_string(), &attributes)
    };
    super::batch(&(0..messages).map(numbered).collect::<Vec<_>>())
}

/// Handles an event, and returns the response and the time of the response before the end of the invocation.
async fn handle(writer: &Writer, event: &Value) -> (Value, Duration) {
    let end = Instant::now() + TIMEOUT;
    let response = super::handle(writer, event).await;
    (response, end.saturating_duration_since(Instant::now()))
}

fn is_in_time(left: Duration) -> bool {
    // The timer has a resolution of one millisecond.
    left + Duration::from_millis(1) >= RESERVED
}

/// Returns the number of updates that failed, and of all updates of the event.
fn failed_of(event: &Value, response: &Value) -> (usize, usize) {
    match event["Records"].as_array() {
        Some(records) => (failures(response).len(), records.len()),
        None => (usize::from(response.get("errorType").is_some()), 1),
    }
}

/// The latest item of an entity whose recent requests do not reach back to the first delivery.
fn latest() -> Value {
    json!({
        "PK": {"S": "E"}, "SK": {"S": "v0"}, "Latest": {"N": "40"}, "RequestId": {"S": "other"},
        "RequestsSince": {"N": "1900000000000"}, "RequestsDropped": {"N": "39"}, "RecentRequests": {"M": {}}, "RecordedAt": {"S": "2026-11-22T00:00:00.000000000Z"},
    })
}

/// Every operation hangs in turn; the others say that the latest item exists, or that it does not.
#[tokio::test(start_paused = true)]
async fn no_request_delays_the_response_beyond_the_deadline() {
    let hanging = ["UpdateItem", "GetItem", "Query", "BatchGetItem", "TransactWriteItems"];
    let (mut unfinished, mut shortest) = (BTreeSet::new(), TIMEOUT);
    for hangs in hanging {
        for exists in [false, true] {
            let script = move |operation: &str, _: &Value| {
                let (millis, body) = match operation {
                    _ if operation == hangs => return Reply::Never,
                    "UpdateItem" => return Reply::rejected(exists.then(latest)),
                    "GetItem" => (300, if exists { json!({"Item": latest()}) } else { json!({}) }),
                    "Query" => (300, json!({"Items": []})),
                    // History never catches up.
                    "BatchGetItem" => (300, json!({"Responses": {"Table": []}})),
                    _ => (
                        300,
                        json!({
                            "__type": "com.amazonaws.dynamodb.v20120810#TransactionCanceledException",
                            "CancellationReasons": [{"Code": "ConditionalCheckFailed"}, {"Code": "None"}],
                        }),
                    ),
                };
                Reply::After(Duration::from_millis(millis), body)
            };
            let direct = json!({"ID": "E", "RequestSentAt": 1000, "Timestamp": 1});
            for (options, event) in all_options()
                .into_iter()
                .flat_map(|options| [&direct, &batch(4, |_| 0)].map(|event| (options, event.clone())))
            {
                for settings in client_settings() {
                    let writer = writer(Scripted::new(script), &settings, options);
                    let (response, left) = handle(&writer, &event).await;
                    shortest = shortest.min(left);
                    assert!(is_in_time(left), "{hangs} {exists} {settings:?} {options:?} {left:?}");
                    let (failed, total) = failed_of(&event, &response);
                    assert_eq!(failed, total, "{hangs} {exists} {options:?} {response}");
                    if left <= RESERVED + Duration::from_millis(1) {
                        unfinished.insert(hangs);
                    }
                }
            }
        }
    }
    // Each of them was stopped by the deadline in some case.
    for operation in hanging {
        assert!(unfinished.contains(operation), "{operation} {unfinished:?}");
    }
    assert!(is_in_time(shortest) && shortest <= RESERVED, "{shortest:?}");
}

/// Responses that come slowly, or that DynamoDB stops to send in the middle of a batch.
#[tokio::test(start_paused = true)]
async fn an_applied_message_is_not_among_the_failures() {
    for (millis, hangs_after) in [(1_900, usize::MAX), (900, usize::MAX), (100, 25), (0, 3)] {
        for (messages, entities) in [(10, 1), (100, 1), (100, 7), (150, 150)] {
            let sent = std::sync::atomic::AtomicUsize::new(0);
            let script = move |_: &str, _: &Value| {
                let sent = sent.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                let written = json!({"Attributes": {"Latest": {"N": "1"}}});
                match sent < hangs_after {
                    true => Reply::After(Duration::from_millis(millis), written),
                    false => Reply::Never,
                }
            };
            let http = Scripted::new(script);
            let event = batch(messages, |number| number % entities);
            let writer = writer(http.clone(), &ClientSettings::default(), WriteOptions::default());
            let (response, left) = handle(&writer, &event).await;
            assert!(is_in_time(left), "{left:?}");
            let failed = failures(&response);
            // A response means that the update was applied.
            assert_eq!(
                http.answered().len() + failed.len(),
                messages,
                "{millis} {messages} {entities}"
            );
        }
    }
}
