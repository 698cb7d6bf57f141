//! History of an attached table, from synthetic stream records and beside other programs that write. The simulation checks generated
//! histories with faults.

mod as_of;
mod operations;
mod records;
mod snapshot;

use std::time::Duration;

use serde_json::{Value, json};
use shared::{
    clock::{Deadline, since_epoch},
    dynamodb::client::capacity::Meter,
};
use stream_fn::{HistoryWriter, Purpose, response::Outcome};
use testkit::attached::{Orders, key_attributes};

const LABEL: &str = "2026-11-22T06:24:48.123";

/// A stream record of an order at a number and a second, from one state to another. `!` at the end of a state changes the ignored
/// attribute.
fn record(no: u64, number: u64, second: u64, old: Option<&str>, new: Option<&str>) -> Value {
    let event = match (old, new) {
        (None, _) => "INSERT",
        (_, Some(_)) => "MODIFY",
        (_, None) => "REMOVE",
    };
    let mut dynamodb = json!({
        "Keys": key_attributes(no), "StreamViewType": "NEW_AND_OLD_IMAGES", "ApproximateCreationDateTime": second,
        // The number of digits changes.
        "SequenceNumber": (99_999_999_999_999_999_990_u128 + u128::from(number)).to_string(),
    });
    for (name, state) in [("OldImage", old), ("NewImage", new)] {
        let Some(state) = state else { continue };
        let mut image = key_attributes(no);
        image["state"] = json!({"S": state.trim_end_matches('!')});
        image["seen"] = json!({"BOOL": state.ends_with('!')});
        // Attributes of the user with our names.
        for name in ["PK", "SK", "RequestId", "Image", "Stream", "Version"] {
            image[name] = json!({"S": "user"});
        }
        (image["TTL"], image["Deleted"]) = (json!({"N": "1"}), json!({"BOOL": true}));
        dynamodb[name] = image;
    }
    let arn = format!("arn:aws:dynamodb:eu-west-1:123456789012:table/Orders/stream/{LABEL}");
    json!({"eventName": event, "eventSourceARN": arn, "dynamodb": dynamodb})
}

/// Returns a record of now.
fn change(no: u64, number: u64, old: Option<&str>, new: Option<&str>) -> Value {
    record(no, number, since_epoch().as_secs(), old, new)
}

fn deadline() -> Deadline {
    Deadline::after(Duration::from_secs(600))
}

/// Handles a batch, and returns the sequence numbers of the failed records.
async fn handle(writer: &HistoryWriter, records: &[Value]) -> Vec<String> {
    let event = json!({"Records": records}).to_string();
    let response = writer.handle(&event, "lambda", deadline()).await.unwrap();
    let failures = response.batch_item_failures.into_iter();
    failures.map(|failure| failure.item_identifier.unwrap()).collect()
}

/// Delivers records one by one, as a redrive does.
fn redrive(orders: &Orders, records: &[Value]) -> Vec<Outcome> {
    let writer = HistoryWriter::from_store(orders.store(), Purpose::Redrive);
    let mut outcomes = Vec::new();
    for record in records {
        let raw = record.to_string();
        let processed = orders.block_on(writer.process(vec![&raw], deadline()));
        outcomes.extend(processed.into_iter().map(|record| record.outcome));
    }
    outcomes
}

/// Returns a client whose requests are metered.
fn metered(orders: &Orders) -> (aws_sdk_dynamodb::Client, Meter) {
    let meter = Meter::default();
    let config = orders.client.config().to_builder().interceptor(meter.clone());
    (aws_sdk_dynamodb::Client::from_conf(config.build()), meter)
}
