//! Stream records in the form in which Lambda delivers them.

use std::time::Duration;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use shared::domain::sequence::SequenceNumber;

/// A stream record, as it appears in events and failure documents.
#[derive(Debug, Clone)]
pub struct Record {
    sequence_number: SequenceNumber,
    created: Duration,
    json: Value,
    size: usize,
}

impl Record {
    /// Creates a record from its sequence number, its creation time since 1970, and the JSON that Lambda delivers.
    pub fn new(sequence_number: SequenceNumber, created: Duration, json: Value) -> Self {
        let size = json.to_string().len();
        Self {
            sequence_number,
            created,
            json,
            size,
        }
    }

    pub fn sequence_number(&self) -> &SequenceNumber {
        &self.sequence_number
    }

    pub fn created(&self) -> Duration {
        self.created
    }

    pub fn json(&self) -> &Value {
        &self.json
    }

    /// Returns the size of the JSON in bytes.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Returns the index of the lane. Records of one item share a lane, so that they stay in order.
    pub fn lane(&self, lanes: usize) -> usize {
        let keys = self.json.pointer("/dynamodb/Keys");
        let keys = keys.or_else(|| self.json.pointer("/kinesis/partitionKey"));
        let mut keys = keys.cloned().unwrap_or_default();
        // The order of the key attributes differs from record to record.
        keys.sort_all_objects();
        let hash = Sha256::digest(keys.to_string().as_bytes());
        let number = hash
            .iter()
            .take(8)
            .fold(0usize, |number, byte| number << 8 | usize::from(*byte));
        number % lanes
    }
}

pub fn event(records: &[Record]) -> Value {
    json!({ "Records": records.iter().map(Record::json).collect::<Vec<_>>() })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test, a panic is the message")]

    use super::*;

    #[test]
    fn records_of_one_item_share_a_lane_in_any_order_of_their_key_attributes() {
        let record = |keys: &str| {
            let json = format!(r#"{{"dynamodb": {{"Keys": {keys}}}}}"#);
            let number = SequenceNumber::new("1").unwrap();
            Record::new(number, Duration::ZERO, serde_json::from_str(&json).unwrap())
        };
        for item in 0..20 {
            let one = record(&format!(r#"{{"PK": {{"S": "e{item}"}}, "SK": {{"S": "v0"}}}}"#));
            let other = record(&format!(r#"{{"SK": {{"S": "v0"}}, "PK": {{"S": "e{item}"}}}}"#));
            assert_eq!(one.lane(10), other.lane(10));
        }
    }
}
