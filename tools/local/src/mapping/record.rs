//! A record of the stream, as it is delivered.

use std::time::Duration;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use shared::domain::sequence::SequenceNumber;

/// A record, in the form that functions and failure documents get.
#[derive(Debug, Clone)]
pub struct Record {
    sequence_number: SequenceNumber,
    created: Duration,
    json: Value,
    size: usize,
}

impl Record {
    /// A record from its JSON in the shape that Lambda delivers, when it was created, and its place in the stream.
    pub fn new(sequence_number: SequenceNumber, created: Duration, json: Value) -> Self {
        let size = json.to_string().len();
        Self {
            sequence_number,
            created,
            json,
            size,
        }
    }

    /// Its place in the stream.
    pub fn sequence_number(&self) -> &SequenceNumber {
        &self.sequence_number
    }

    /// When it was created, since 1970.
    pub fn created(&self) -> Duration {
        self.created
    }

    /// What is delivered.
    pub fn json(&self) -> &Value {
        &self.json
    }

    /// How many bytes of payload it takes.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Which of several lanes it belongs to. Records of one item share a lane, so that they keep their order.
    pub fn lane(&self, lanes: usize) -> usize {
        let keys = self
            .json
            .pointer("/dynamodb/Keys")
            .map(Value::to_string)
            .unwrap_or_default();
        let hash = Sha256::digest(keys.as_bytes());
        let number = hash
            .iter()
            .take(8)
            .fold(0usize, |number, byte| number << 8 | usize::from(*byte));
        number % lanes
    }
}

/// The event that a batch is delivered as.
pub fn event(records: &[Record]) -> Value {
    json!({ "Records": records.iter().map(Record::json).collect::<Vec<_>>() })
}
