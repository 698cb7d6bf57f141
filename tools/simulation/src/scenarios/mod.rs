//! Scenarios: single runs of the functions and the mapping in virtual time, at the scale and with the settings of production.
//!
//! Unlike schedules they are not random. Each prints its figures as one JSON object, and fails if a guarantee is violated.

mod endpoint;
pub(crate) mod interleavings;
pub(crate) mod outages;
mod senders;
mod settings;
pub(crate) mod shards;
mod table;

use std::{future::Future, time::Duration};

use crate::error::SimulationError;

/// Result of a scenario.
pub(crate) struct Outcome {
    pub(crate) figures: serde_json::Value,
    /// Descriptions of the violated guarantees.
    pub(crate) violations: Vec<String>,
}

/// Duration of a request to the database.
const REQUEST: Duration = Duration::from_millis(5);

/// Runs a future in one thread and in virtual time.
fn in_virtual_time<T>(future: impl Future<Output = T>) -> Result<T, SimulationError> {
    // The random number generator of the SDK and the library.
    fastrand::seed(1);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .map_err(SimulationError::Runtime)?;
    Ok(runtime.block_on(future))
}

/// Returns the stream record of a write of an item, as the mapping delivers it.
fn stream_record(number: u64, created: Duration, image: &serde_json::Value) -> Option<local::mapping::record::Record> {
    let number = format!("{number:021}");
    let json = serde_json::json!({
        "eventID": number,
        "eventName": if image["Latest"]["N"] == "1" { "INSERT" } else { "MODIFY" },
        "eventVersion": "1.1",
        "eventSource": "aws:dynamodb",
        "awsRegion": "us-east-1",
        "dynamodb": {
            "ApproximateCreationDateTime": created.as_secs(),
            "Keys": {"PK": image["PK"], "SK": image["SK"]},
            "NewImage": image,
            "SequenceNumber": number,
            "StreamViewType": "NEW_IMAGE",
        },
        "eventSourceARN": STREAM_ARN,
    });
    let number = shared::domain::sequence::SequenceNumber::new(number)?;
    Some(local::mapping::record::Record::new(number, created, json))
}

const STREAM_ARN: &str = "arn:aws:dynamodb:us-east-1:000000000000:table/Table/stream/1";

/// Returns the names in failure documents.
fn identity() -> local::mapping::Identity {
    local::mapping::Identity {
        uuid: "00000000-0000-0000-0000-000000000000".to_owned(),
        function_arn: "arn:aws:lambda:us-east-1:000000000000:function:stream-fn".to_owned(),
        stream_arn: STREAM_ARN.to_owned(),
    }
}

/// Returns the records in a failure document.
fn records_of(document: &serde_json::Value) -> Vec<serde_json::Value> {
    let payload = &document["payload"];
    let parsed = payload.as_str().and_then(|text| serde_json::from_str(text).ok());
    let payload: serde_json::Value = parsed.unwrap_or_else(|| payload.clone());
    payload["Records"].as_array().cloned().unwrap_or_default()
}

/// Returns the sequence number of a record.
fn number_of(record: &serde_json::Value) -> u64 {
    let number = record.pointer("/dynamodb/SequenceNumber");
    number.and_then(|number| number.as_str()?.parse().ok()).unwrap_or(0)
}

/// Returns the sequence numbers of the batch item failures in a response.
fn failures_of(response: &serde_json::Value) -> Vec<u64> {
    let failures = response["batchItemFailures"].as_array().into_iter().flatten();
    let number = |failure: &serde_json::Value| failure["itemIdentifier"].as_str()?.parse().ok();
    failures.filter_map(number).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test, a panic is the message")]

    use super::*;

    #[test]
    fn a_short_outage_loses_no_update() {
        let outcome = outages::run(&[5]).unwrap();
        assert!(outcome.violations.is_empty(), "{:?}", outcome.violations);
        let figures = outcome.figures["outages"].as_array().unwrap();
        assert_eq!(figures.len(), 2);
        // The outage is in effect: without it, no invocation fails.
        assert!(
            figures
                .iter()
                .all(|outage| outage["failed_invocations"].as_u64() > Some(0))
        );
    }

    #[test]
    fn many_shards_are_listed_rarely_and_read_in_order() {
        let outcome = shards::run(500).unwrap();
        assert!(outcome.violations.is_empty(), "{:?}", outcome.violations);
        let figures = &outcome.figures;
        assert_eq!(figures["shards"], 500);
        assert_eq!(figures["documents"], 5);
        // About one list every 10 s, and not one for each shard that ends.
        assert!(figures["lists"].as_u64().unwrap() < 100, "{figures}");
    }
}
