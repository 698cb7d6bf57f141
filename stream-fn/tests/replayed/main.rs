//! stream-fn on a DynamoDB without a server: its responses are prepared, follow from the request, or never come.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the message")]

mod attached;
mod deadline;
mod hostile;
mod layout;
mod quarantine;

use std::time::Duration;

use aws_sdk_dynamodb::config::HttpClient;
use lambda_runtime::Diagnostic;
use serde_json::{Value, json};
use shared::{clock, clock::Deadline};
use stream_fn::HistoryWriter;
use testkit::replay::{self, failures};

const LEFT: Duration = Duration::from_secs(60);
/// Stream of the attached table `Orders`.
const ORDERS_STREAM: &str = "arn:aws:dynamodb:eu-west-1:123456789012:table/Orders/stream/2026-11-22T06:24:48.123";

fn writer(http: impl HttpClient + 'static) -> HistoryWriter {
    HistoryWriter::new(replay::client(http), &replay::settings()).with_checked_layout()
}

/// Returns the keys of a latest item.
fn latest_keys(entity: &str) -> Value {
    json!({"PK": {"S": entity}, "SK": {"S": "v0"}})
}

/// Returns a stream record of an item with these keys and other attributes. It is fresh: older records need the purge marker.
fn record(number: &str, keys: &Value, attributes: &Value) -> Value {
    let mut image = keys.clone();
    let members = image.as_object_mut().unwrap();
    members.extend(attributes.as_object().unwrap().clone());
    let change = json!({
        "Keys": keys, "NewImage": image, "SequenceNumber": number,
        "ApproximateCreationDateTime": clock::since_epoch().as_secs(),
    });
    json!({"eventName": "INSERT", "eventSourceARN": ORDERS_STREAM, "dynamodb": change})
}

fn batch(records: &[Value]) -> String {
    json!({"Records": records}).to_string()
}

/// Returns the sequence numbers of the failed records, or the error as Lambda reports it.
async fn handle(writer: &HistoryWriter, event: &str, left: Duration) -> Result<Vec<String>, Diagnostic> {
    let response = writer.handle(event, "lambda", Deadline::after(left)).await?;
    Ok(failures(&serde_json::to_value(response).unwrap()))
}

/// Returns the sequence numbers of the failed records.
async fn failed(writer: &HistoryWriter, records: &[Value], left: Duration) -> Vec<String> {
    handle(writer, &batch(records), left).await.unwrap()
}
