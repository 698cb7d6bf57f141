//! The function's response to a batch, under `ReportBatchItemFailures`.
//!
//! Each rule was recorded on AWS; see the fixture `tests/fixtures/stream-mapping.json`.

use serde_json::Value;
use shared::{domain::sequence::SequenceNumber, json};

use super::record::Record;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BatchOutcome {
    Done,
    /// The records from this index on are delivered again.
    FailedFrom(usize),
    /// The response is invalid or names an unknown record: all records are delivered again.
    Failed,
}

/// Parses a response. The lowest sequence number in it decides.
pub fn parse(response: &[u8], batch: &[Record]) -> BatchOutcome {
    let Some(failures) = failures(response) else {
        return BatchOutcome::Failed;
    };
    let indices: Option<Vec<usize>> = failures.iter().map(|failure| index(failure, batch)).collect();
    match indices.map(|indices| indices.into_iter().min()) {
        None => BatchOutcome::Failed,
        Some(None) => BatchOutcome::Done,
        Some(Some(index)) => BatchOutcome::FailedFrom(index),
    }
}

/// Returns the batch item failures of a response. `None` if the response is invalid.
pub(crate) fn failures(response: &[u8]) -> Option<Vec<Value>> {
    if response.is_empty() {
        return Some(Vec::new());
    }
    match json::parse_bytes(response) {
        Ok(Value::Null) => Some(Vec::new()),
        Ok(Value::Array(list)) if list.is_empty() => Some(list),
        Ok(Value::Object(mut members)) => match members.remove("batchItemFailures") {
            None | Some(Value::Null) => Some(Vec::new()),
            Some(Value::Array(failures)) => Some(failures),
            Some(_) => None,
        },
        _ => None,
    }
}

fn index(failure: &Value, batch: &[Record]) -> Option<usize> {
    let number = SequenceNumber::new(failure.get("itemIdentifier")?.as_str()?)?;
    batch.iter().position(|record| *record.sequence_number() == number)
}
