//! Failure documents: records that a function could not process, or their position in the stream.
//!
//! An event source mapping [writes one](https://docs.aws.amazon.com/lambda/latest/dg/services-dynamodb-errors.html) to its
//! on-failure destination. Only S3 receives the records themselves.

use shared::{
    domain::{number::Decimal, sequence::SequenceNumber},
    json,
};
use thiserror::Error;

/// Maximum number of records of an invocation, the maximum `BatchSize` of [an event source
/// mapping](https://docs.aws.amazon.com/lambda/latest/api/API_CreateEventSourceMapping.html). A document with more is none: each
/// record costs memory.
pub const MAX_RECORDS: usize = 10_000;

#[derive(Debug)]
pub struct Document {
    pub batch: Option<Batch>,
    /// Stream that the document names, also without a valid batch. It can be a Kinesis stream.
    pub stream_arn: Option<String>,
    /// Records as raw JSON. A document in a queue or topic has none.
    pub records: Option<Vec<String>>,
}

/// Position of records in a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    pub stream_arn: String,
    pub shard: String,
    pub first: SequenceNumber,
    pub last: SequenceNumber,
    pub size: u64,
}

/// The text is no failure document, or contains neither records nor their position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("it is not a failure document of a table's stream with at most {MAX_RECORDS} records")]
pub struct NotADocument;

/// Parses a document. Ignores all other members.
pub fn parse(text: &str) -> Result<Document, NotADocument> {
    let document = json::members(text).map_err(|_| NotADocument)?;
    let stream = document
        .value(STREAM_BATCH)
        .or_else(|| document.value("KinesisBatchInfo"));
    // A batch without an ARN names no stream, and one that is no text names none that exists.
    let stream_arn = stream.and_then(|stream| json::members(stream).ok()?.get("streamArn"));
    let document = Document {
        stream_arn: stream_arn.map(|arn| json::string(arn).unwrap_or_default()),
        batch: document.value(STREAM_BATCH).and_then(batch),
        records: document.value("payload").map(records).transpose()?,
    };
    let is_one = document.batch.is_some() || document.records.is_some();
    is_one.then_some(document).ok_or(NotADocument)
}

/// Member with the position of the records in a DynamoDB stream.
const STREAM_BATCH: &str = "DDBStreamBatchInfo";

fn batch(text: &str) -> Option<Batch> {
    let members = json::members(text).ok()?;
    let size = match members.value("batchSize") {
        Some(size) => Decimal::parse(json::number(size)?).ok()?.to_u64()?,
        None => 1,
    };
    let batch = Batch {
        stream_arn: members.string("streamArn")?,
        shard: members.string("shardId")?,
        first: SequenceNumber::new(members.string("startSequenceNumber")?)?,
        last: SequenceNumber::new(members.string("endSequenceNumber")?)?,
        size: size.max(1),
    };
    (batch.first <= batch.last && batch.size <= MAX_RECORDS as u64).then_some(batch)
}

/// Parses the event of an invocation: an object, or a string that contains it.
fn records(payload: &str) -> Result<Vec<String>, NotADocument> {
    let text = json::string(payload);
    let event = json::members(text.as_deref().unwrap_or(payload)).map_err(|_| NotADocument)?;
    let records = json::elements(event.get("Records").ok_or(NotADocument)?).map_err(|_| NotADocument)?;
    match records.len() > MAX_RECORDS {
        true => Err(NotADocument),
        false => Ok(records.into_iter().map(str::to_owned).collect()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn batch() -> Value {
        json!({
            "shardId": "shard-1", "startSequenceNumber": "8", "endSequenceNumber": "10", "batchSize": 2, "streamArn": "arn",
            "approximateArrivalOfFirstRecord": "2026-01-01T00:00:00Z",
        })
    }

    /// `oracles::failure_documents` checks documents that the mapping of the local stack writes.
    #[test]
    fn a_payload_is_text_or_an_object_or_missing() {
        let number = |text: &str| SequenceNumber::new(text).unwrap();
        let position = Batch {
            stream_arn: "arn".to_owned(),
            shard: "shard-1".to_owned(),
            first: number("8"),
            last: number("10"),
            size: 2,
        };
        let payload = r#"{"Records": [7, {"a":  1.10}]}"#;
        // Records are not validated here: stream-fn does that.
        let records = vec!["7".to_owned(), r#"{"a":  1.10}"#.to_owned()];
        for (payload, records) in [
            (format!(r#", "payload": {payload}"#), Some(records.clone())),
            (format!(r#", "payload": {}"#, json!(payload)), Some(records)),
            (String::new(), None),
        ] {
            let document = parse(&format!(r#"{{"DDBStreamBatchInfo": {}{payload}}}"#, batch())).unwrap();
            assert_eq!((document.batch, document.records), (Some(position.clone()), records));
            assert_eq!(document.stream_arn.as_deref(), Some("arn"));
        }
        // A batch that is invalid names a stream all the same.
        for (batch, arn) in [
            (
                r#""DDBStreamBatchInfo": {"streamArn": "other", "batchSize": -1}, "#,
                Some("other"),
            ),
            (r#""DDBStreamBatchInfo": {"streamArn": 7}, "#, Some("")),
            (r#""KinesisBatchInfo": {"streamArn": "kinesis"}, "#, Some("kinesis")),
            ("", None),
        ] {
            let document = parse(&format!(r#"{{{batch}"payload": {payload}}}"#)).unwrap();
            assert_eq!((document.batch, document.stream_arn.as_deref()), (None, arn));
        }
    }

    #[test]
    fn other_texts_are_rejected() {
        let with = |name: &str, value: Value| {
            let mut batch = batch();
            batch[name] = value;
            json!({"DDBStreamBatchInfo": batch}).to_string()
        };
        let of_records = |count| json!({"payload": {"Records": vec![7; count]}}).to_string();
        let payload = |payload: Value| json!({"payload": payload, "DDBStreamBatchInfo": batch()}).to_string();
        for odd in [
            "{\"payload\"",
            "{}",
            "[]",
            "null",
            "\"text\"",
            r#"{"Records": []}"#,
            r#"{"payload": null}"#,
            r#"{"DDBStreamBatchInfo": {}}"#,
            &payload(json!(7)),
            &payload(json!({"Records": 7})),
            &payload(json!("{")),
            &json!({"KinesisBatchInfo": batch()}).to_string(),
            &with("startSequenceNumber", json!("")),
            &with("startSequenceNumber", json!("11")),
            &with("endSequenceNumber", json!(null)),
            &with("shardId", json!(7)),
            &with("batchSize", json!(-1)),
            &with("batchSize", json!(MAX_RECORDS + 1)),
            &with("batchSize", json!(u64::MAX)),
            &of_records(MAX_RECORDS + 1),
            &json!({"payload": of_records(MAX_RECORDS + 1)}).to_string(),
        ] {
            assert_eq!(parse(odd).unwrap_err(), NotADocument, "{odd}");
        }
        let largest = parse(&of_records(MAX_RECORDS)).unwrap();
        assert_eq!(largest.records.unwrap().len(), MAX_RECORDS);
    }
}
