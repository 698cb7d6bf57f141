//! Failure documents, with the content and key layout of AWS.
//! See <https://docs.aws.amazon.com/lambda/latest/dg/with-ddb.html>.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use super::record::{self, Record};

/// Names in failure documents and records. The function has no published versions.
#[derive(Debug, Clone)]
pub struct Identity {
    pub uuid: String,
    pub function_arn: String,
    pub stream_arn: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    RetryAttemptsExhausted(LastTry),
    RecordAgeExceeded,
}

/// Cause of the failure of the last try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LastTry {
    FunctionError,
    /// The function's response named failed items, or was invalid.
    Response,
    /// The records are too large for an invocation.
    TooLarge,
}

/// A failure document and its object key.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    /// `aws/lambda/<mapping>/<shard>/YYYY/MM/DD/YYYY-MM-DDTHH.MM.SS-<uuid>`
    pub key: String,
    /// The document. `payload` is a string: the event with its records, as JSON.
    pub body: Value,
}

/// Records that are not delivered again.
pub struct Failure {
    /// Records, at least one.
    pub records: Vec<Record>,
    /// Request id of the records' tries.
    pub request_id: String,
    /// Number of tries, at least 1.
    pub invoke_count: usize,
    pub reason: Reason,
}

impl Failure {
    /// Returns the document of records in this shard. `now` is the time since 1970.
    pub fn document(&self, identity: &Identity, shard: &str, now: Duration) -> Document {
        let time = timestamp(now);
        let day = time.strftime("%Y/%m/%d");
        let second = time.strftime("%Y-%m-%dT%H.%M.%S");
        let (uuid, id) = (&identity.uuid, self.document_id(shard, now));
        Document {
            key: format!("aws/lambda/{uuid}/{shard}/{day}/{second}-{id}"),
            body: self.body(identity, shard, time),
        }
    }

    /// Returns an id in the form of a UUID, derived from the content of the document. It is not random, so that a simulation
    /// can be repeated.
    fn document_id(&self, shard: &str, now: Duration) -> Uuid {
        let mut hash = Sha256::new_with_prefix(shard);
        hash.update(now.as_nanos().to_be_bytes());
        for record in &self.records {
            hash.update(record.sequence_number().as_str());
            hash.update([0]);
        }
        let mut id = [0; 16];
        id.copy_from_slice(&hash.finalize()[..16]);
        uuid::Builder::from_custom_bytes(id).into_uuid()
    }

    fn body(&self, identity: &Identity, shard: &str, now: Timestamp) -> Value {
        let records = &self.records;
        let first = records.first();
        // Arrival times have milliseconds for Kinesis, and seconds for `DynamoDB` (recorded).
        let (batch_info, arrival) = match first.is_some_and(|record| record.json().get("kinesis").is_some()) {
            true => ("KinesisBatchInfo", "%Y-%m-%dT%H:%M:%S.%3fZ"),
            false => ("DDBStreamBatchInfo", "%Y-%m-%dT%H:%M:%SZ"),
        };
        let arrival = |record: &Record| timestamp(record.created()).strftime(arrival).to_string();
        // Only a response of the function has a context.
        let (condition, function_error) = match self.reason {
            Reason::RecordAgeExceeded => ("RecordAgeExceeded", None),
            Reason::RetryAttemptsExhausted(last) => (
                "RetryAttemptsExhausted",
                match last {
                    LastTry::FunctionError => Some(json!("Unhandled")),
                    LastTry::Response => Some(Value::Null),
                    LastTry::TooLarge => None,
                },
            ),
        };
        let mut body = json!({
            "requestContext": {
                "requestId": self.request_id,
                "functionArn": identity.function_arn,
                "condition": condition,
                "approximateInvokeCount": self.invoke_count,
            },
            "version": "1.0",
            "timestamp": now.strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string(),
            batch_info: {
                "shardId": shard,
                "startSequenceNumber": first.map(Record::sequence_number),
                "endSequenceNumber": records.last().map(Record::sequence_number),
                "approximateArrivalOfFirstRecord": first.map(arrival),
                "approximateArrivalOfLastRecord": records.last().map(arrival),
                "batchSize": records.len(),
                "streamArn": identity.stream_arn,
            },
            "payload": record::document_payload(records),
        });
        if let Some(function_error) = function_error {
            body["responseContext"] = json!({
                "statusCode": 200,
                "executedVersion": "$LATEST",
                "functionError": function_error,
            });
        }
        body
    }
}

fn timestamp(since_epoch: Duration) -> Timestamp {
    let millis = i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX);
    Timestamp::from_millisecond(millis).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test, a panic is the message")]

    use shared::domain::sequence::SequenceNumber;

    use super::*;

    /// Returns the document of a record that was created at this number of milliseconds.
    fn document(last: LastTry, created: u64, json: Value) -> Document {
        let number = SequenceNumber::new("000000000000000000001").unwrap();
        let identity = Identity {
            uuid: "mapping-1".to_owned(),
            function_arn: "arn:aws:lambda:us-east-1:000000000000:function:stream-fn".to_owned(),
            stream_arn: "arn:aws:dynamodb:us-east-1:000000000000:table/T/stream/1".to_owned(),
        };
        let failure = Failure {
            records: vec![Record::new(number, Duration::from_millis(created), json)],
            request_id: "request-1".to_owned(),
            invoke_count: 4,
            reason: Reason::RetryAttemptsExhausted(last),
        };
        failure.document(&identity, "shard-1", Duration::from_millis(1_764_085_202_269))
    }

    #[test]
    fn the_document_of_a_record_is_the_recorded_one() {
        let recorded: Value = serde_json::from_str(include_str!("../../tests/fixtures/stream-mapping.json")).unwrap();
        let mut expected = recorded["one_record_that_always_fails"]["document"].clone();
        let record = json!({"dynamodb": {"SequenceNumber": "000000000000000000001"}});
        expected["payload"] = json!(json!({"Records": [record]}).to_string());
        let Document { key, body } = document(LastTry::Response, 1_764_085_200_000, record);
        assert_eq!(body, expected);
        let (start, id) = key.split_at("aws/lambda/mapping-1/shard-1/2025/11/25/2025-11-25T15.40.02-".len());
        assert_eq!(start, "aws/lambda/mapping-1/shard-1/2025/11/25/2025-11-25T15.40.02-");
        assert_eq!(id.len(), 36);
    }

    #[test]
    fn arrival_times_of_kinesis_have_milliseconds() {
        for (json, info, time, payload) in [
            (
                json!({"kinesis": {"approximateArrivalTimestamp": 1_789_651_658.042}}),
                "KinesisBatchInfo",
                "2026-09-17T13:27:38.042Z",
                r#"{"Records":[{"kinesis":{"approximateArrivalTimestamp":1.789651658042E9}}]}"#,
            ),
            (
                json!({"dynamodb": {"ApproximateCreationDateTime": 1_789_651_658}}),
                "DDBStreamBatchInfo",
                "2026-09-17T13:27:38Z",
                r#"{"Records":[{"dynamodb":{"ApproximateCreationDateTime":1.789651658E9}}]}"#,
            ),
        ] {
            let body = document(LastTry::FunctionError, 1_789_651_658_042, json).body;
            assert_eq!(body[info]["approximateArrivalOfFirstRecord"], time);
            assert_eq!(body[info]["approximateArrivalOfLastRecord"], time);
            assert_eq!(body["payload"], payload);
        }
    }
}
