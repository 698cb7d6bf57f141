//! Failure documents, in AWS's own shape and key layout.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    Identity,
    record::{self, Record},
};

/// Why records are given up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// They were tried as often as the mapping allows.
    RetryAttemptsExhausted {
        /// The request id of the last try.
        request_id: String,
        /// How often they were tried.
        invoke_count: u32,
        /// Whether the function failed as a whole, rather than answering with failed items.
        function_error: bool,
    },
    /// They are older than the mapping allows.
    RecordAgeExceeded {
        /// The request id of the last try, if there was one.
        request_id: Option<String>,
        /// How often they were tried.
        invoke_count: u32,
    },
}

/// A failure document, and the key it is kept under.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    /// `aws/lambda/<mapping>/<shard>/YYYY/MM/DD/YYYY-MM-DDTHH.MM.SS-<uuid>`
    pub key: String,
    /// The document, with its records in `payload`.
    pub body: Value,
}

/// Everything a document is made of.
pub struct Failure<'a> {
    /// The mapping.
    pub identity: &'a Identity,
    /// The shard that the records were read from.
    pub shard: &'a str,
    /// The records, at least one.
    pub records: &'a [Record],
    /// Why they are given up.
    pub reason: Reason,
    /// What time it is, since 1970.
    pub now: Duration,
    /// What tells this document from another of the same second.
    pub id: String,
}

impl Failure<'_> {
    /// Writes the document.
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
        // There is none where the age ran out.
        if let Reason::RetryAttemptsExhausted { function_error, .. } = self.reason {
            body["responseContext"] = json!({
                "statusCode": 200,
                "executedVersion": "$LATEST",
                "functionError": function_error.then_some("Unhandled"),
            });
        }
        body
    }
}

impl Failure<'_> {
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
