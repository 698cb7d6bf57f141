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

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    RetryAttemptsExhausted {
        /// Request id of the last attempt.
        request_id: String,
        invoke_count: u32,
        /// `true` if the function failed, `false` if its response named failed items.
        function_error: bool,
    },
    RecordAgeExceeded {
        /// Request id of the last attempt, if there was one.
        request_id: Option<String>,
        invoke_count: u32,
    },
}

/// A failure document and its object key.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    /// `aws/lambda/<mapping>/<shard>/YYYY/MM/DD/YYYY-MM-DDTHH.MM.SS-<uuid>`
    pub key: String,
    /// The document, with its records in `payload`.
    pub body: Value,
}

pub struct Failure<'a> {
    pub identity: &'a Identity,
    pub shard: &'a str,
    /// Records, at least one.
    pub records: &'a [Record],
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
        let (condition, request_id, invoke_count) = match &self.reason {
            Reason::RetryAttemptsExhausted {
                request_id,
                invoke_count,
                ..
            } => ("RetryAttemptsExhausted", Some(request_id), invoke_count),
            Reason::RecordAgeExceeded {
                request_id,
                invoke_count,
            } => ("RecordAgeExceeded", request_id.as_ref(), invoke_count),
        };
        let mut body = json!({
            "requestContext": {
                "requestId": request_id,
                "functionArn": self.identity.function_arn,
                "condition": condition,
                "approximateInvokeCount": invoke_count,
            },
            "version": "1.0",
            "timestamp": now.strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string(),
            (self.batch_info()): {
                "shardId": self.shard,
                "startSequenceNumber": self.records.first().map(Record::sequence_number),
                "endSequenceNumber": self.records.last().map(Record::sequence_number),
                "approximateArrivalOfFirstRecord": self.records.first().map(arrival),
                "approximateArrivalOfLastRecord": self.records.last().map(arrival),
                "batchSize": self.records.len(),
                "streamArn": self.identity.stream_arn,
            },
            "payload": record::event(self.records),
        });
        // A document about the record age has no response context.
        if let Reason::RetryAttemptsExhausted { function_error, .. } = self.reason {
            body["responseContext"] = json!({
                "statusCode": 200,
                "executedVersion": "$LATEST",
                "functionError": function_error.then_some("Unhandled"),
            });
        }
        body
    }

    fn batch_info(&self) -> &'static str {
        let first = self.records.first().map(Record::json);
        match first.is_some_and(|record| record.get("kinesis").is_some()) {
            true => "KinesisBatchInfo",
            false => "DDBStreamBatchInfo",
        }
    }
}

fn arrival(record: &Record) -> String {
    timestamp(record.created()).strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

fn timestamp(since_epoch: Duration) -> Timestamp {
    let millis = i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX);
    Timestamp::from_millisecond(millis).unwrap_or(Timestamp::MAX)
}
