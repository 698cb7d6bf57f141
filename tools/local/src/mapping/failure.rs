//! Failure documents, with the content and key layout of AWS.
//! See <https://docs.aws.amazon.com/lambda/latest/dg/with-ddb.html>.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::record::{self, Record};

/// Names in failure documents and records.
#[derive(Debug, Clone)]
pub struct Identity {
    pub uuid: String,
    pub function_arn: String,
    pub stream_arn: String,
}

impl Identity {
    /// Returns the version in the function's ARN. An ARN without a version, or with an alias, is an unpublished function's.
    fn executed_version(&self) -> &str {
        let version = self.function_arn.split(':').nth(7);
        let is_number = |text: &&str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        version.filter(is_number).unwrap_or("$LATEST")
    }
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

pub struct Failure<'a> {
    pub identity: &'a Identity,
    pub shard: &'a str,
    /// Records, at least one.
    pub records: &'a [Record],
    /// Request id of the records' tries.
    pub request_id: String,
    /// Number of tries, at least 1.
    pub invoke_count: usize,
    pub reason: Reason,
    /// Current time since 1970.
    pub now: Duration,
    /// Id that distinguishes documents of the same second.
    pub id: String,
}

impl Failure<'_> {
    pub fn document(&self) -> Document {
        let now = timestamp(self.now);
        let day = now.strftime("%Y/%m/%d");
        let second = now.strftime("%Y-%m-%dT%H.%M.%S");
        let (uuid, shard, id) = (&self.identity.uuid, self.shard, &self.id);
        Document {
            key: format!("aws/lambda/{uuid}/{shard}/{day}/{second}-{id}"),
            body: self.body(now),
        }
    }

    fn body(&self, now: Timestamp) -> Value {
        let records = self.records;
        let is_kinesis = records
            .first()
            .is_some_and(|record| record.json().get("kinesis").is_some());
        // Arrival times have milliseconds for Kinesis, and seconds for `DynamoDB` (recorded).
        let (batch_info, arrival) = match is_kinesis {
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
                "functionArn": self.identity.function_arn,
                "condition": condition,
                "approximateInvokeCount": self.invoke_count,
            },
            "version": "1.0",
            "timestamp": now.strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string(),
            batch_info: {
                "shardId": self.shard,
                "startSequenceNumber": records.first().map(Record::sequence_number),
                "endSequenceNumber": records.last().map(Record::sequence_number),
                "approximateArrivalOfFirstRecord": records.first().map(arrival),
                "approximateArrivalOfLastRecord": records.last().map(arrival),
                "batchSize": records.len(),
                "streamArn": self.identity.stream_arn,
            },
            "payload": record::document_payload(records),
        });
        if let Some(function_error) = function_error {
            body["responseContext"] = json!({
                "statusCode": 200,
                "executedVersion": self.identity.executed_version(),
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

    fn body(function: &str, json: Value) -> Value {
        let number = SequenceNumber::new("1").unwrap();
        let failure = Failure {
            identity: &Identity {
                uuid: "mapping".to_owned(),
                function_arn: format!("arn:aws:lambda:us-east-1:000000000000:function:{function}"),
                stream_arn: "stream".to_owned(),
            },
            shard: "shard-1",
            records: &[Record::new(number, Duration::from_millis(1_789_651_658_042), json)],
            request_id: "r".to_owned(),
            invoke_count: 1,
            reason: Reason::RetryAttemptsExhausted(LastTry::FunctionError),
            now: Duration::ZERO,
            id: "id".to_owned(),
        };
        failure.document().body
    }

    #[test]
    fn arrival_times_of_kinesis_have_milliseconds() {
        let kinesis = body(
            "f",
            json!({"kinesis": {"approximateArrivalTimestamp": 1_789_651_658.042}}),
        );
        let table = body("f", json!({"dynamodb": {"ApproximateCreationDateTime": 1_789_651_658}}));
        for (info, time) in [
            (&kinesis["KinesisBatchInfo"], "2026-09-17T13:27:38.042Z"),
            (&table["DDBStreamBatchInfo"], "2026-09-17T13:27:38Z"),
        ] {
            assert_eq!(info["approximateArrivalOfFirstRecord"], time);
            assert_eq!(info["approximateArrivalOfLastRecord"], time);
        }
        assert_eq!(
            kinesis["payload"],
            r#"{"Records":[{"kinesis":{"approximateArrivalTimestamp":1.789651658042E9}}]}"#
        );
        assert_eq!(
            table["payload"],
            r#"{"Records":[{"dynamodb":{"ApproximateCreationDateTime":1.789651658E9}}]}"#
        );
    }

    #[test]
    fn the_version_is_that_of_the_arn() {
        for (function, version) in [
            ("f", "$LATEST"),
            ("f:7", "7"),
            ("f:live", "$LATEST"),
            ("f:$LATEST", "$LATEST"),
        ] {
            let body = body(function, json!({}));
            assert_eq!(body["responseContext"]["executedVersion"], version, "{function}");
            let arn = body["requestContext"]["functionArn"].as_str().unwrap();
            assert!(arn.ends_with(function), "{arn}");
        }
    }
}
