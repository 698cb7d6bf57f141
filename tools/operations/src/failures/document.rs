//! Failure documents: records that a function could not process, or their position in the stream.
//!
//! An event source mapping [writes one](https://docs.aws.amazon.com/lambda/latest/dg/services-dynamodb-errors.html) to its
//! on-failure destination. Only S3 receives the records themselves.

use shared::{
    domain::{number::Decimal, sequence::SequenceNumber},
    json::{self, Reader},
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
    /// `true` if the records come from the table itself, whatever stream they name: the table can be a restored one.
    pub is_own: bool,
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
        is_own: false,
    };
    match document {
        Document {
            batch: None,
            records: None,
            ..
        } => Err(NotADocument),
        document => Ok(document),
    }
}

/// Member with the position of the records in a DynamoDB stream.
const STREAM_BATCH: &str = "DDBStreamBatchInfo";

impl Document {
    /// Returns a document of records that come from the table itself.
    pub fn of_table(records: Vec<String>) -> Self {
        Self {
            batch: None,
            stream_arn: None,
            records: Some(records),
            is_own: true,
        }
    }
}

fn whole_number(text: &str) -> Option<u64> {
    Decimal::parse(json::number(text)?).ok()?.to_u64()
}

fn batch(text: &str) -> Option<Batch> {
    let members = json::members(text).ok()?;
    let size = members.value("batchSize").map(|size| whole_number(size).ok_or(()));
    let batch = Batch {
        stream_arn: members.string("streamArn")?,
        shard: members.string("shardId")?,
        first: SequenceNumber::new(members.string("startSequenceNumber")?)?,
        last: SequenceNumber::new(members.string("endSequenceNumber")?)?,
        size: size.transpose().ok()?.unwrap_or(1).max(1),
    };
    (batch.first <= batch.last && batch.size <= MAX_RECORDS as u64).then_some(batch)
}

/// Parses the event of an invocation: an object, or a string that contains it. Parsing stops at the first record above
/// [`MAX_RECORDS`].
fn records(payload: &str) -> Result<Vec<String>, NotADocument> {
    let text = json::string(payload);
    let event = json::members(text.as_deref().unwrap_or(payload)).map_err(|_| NotADocument)?;
    let mut reader = Reader::new(event.get("Records").ok_or(NotADocument)?);
    let mut records = Vec::new();
    reader.begin_list().map_err(|_| NotADocument)?;
    while reader.next_element().map_err(|_| NotADocument)? {
        if records.len() == MAX_RECORDS {
            return Err(NotADocument);
        }
        records.push(reader.skip().map_err(|_| NotADocument)?.to_owned());
    }
    Ok(records)
}

#[cfg(test)]
mod tests {
    use local::mapping::{
        Identity,
        failure::{Failure, Reason},
        record::Record,
    };
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn number(number: u64) -> SequenceNumber {
        SequenceNumber::new(format!("{number:021}")).unwrap()
    }

    fn written(numbers: &[u64]) -> Value {
        let record = |n: &u64| {
            let json = json!({"dynamodb": {"SequenceNumber": number(*n), "N": 0.10}, "n": n});
            Record::new(number(*n), std::time::Duration::from_secs(*n), json)
        };
        let failure = Failure {
            identity: &Identity {
                uuid: "mapping".to_owned(),
                function_arn: "function".to_owned(),
                stream_arn: "arn:aws:dynamodb:r:1:table/T/stream/1".to_owned(),
            },
            shard: "shard-1",
            records: &numbers.iter().map(record).collect::<Vec<_>>(),
            request_id: "r".to_owned(),
            invoke_count: 1,
            reason: Reason::RecordAgeExceeded,
            now: std::time::Duration::from_secs(1),
            id: "id".to_owned(),
        };
        failure.document().body
    }

    proptest! {
        #[test]
        fn documents_of_the_mapping_are_parsed(
            mut numbers in prop::collection::vec(any::<u64>(), 1..20), kept in any::<bool>(), as_text in any::<bool>(),
        ) {
            numbers.sort_unstable();
            let mut body = written(&numbers);
            let payload: Value = serde_json::from_str(body["payload"].as_str().unwrap()).unwrap();
            let records: Vec<String> = payload["Records"].as_array().unwrap().iter().map(Value::to_string).collect();
            if !kept {
                body.as_object_mut().unwrap().remove("payload");
            } else if !as_text {
                body["payload"] = payload;
            }
            let document = parse(&body.to_string()).unwrap();
            prop_assert_eq!(document.batch, Some(Batch {
                stream_arn: "arn:aws:dynamodb:r:1:table/T/stream/1".to_owned(),
                shard: "shard-1".to_owned(),
                first: number(numbers[0]),
                last: number(numbers[numbers.len() - 1]),
                size: numbers.len() as u64,
            }));
            let read = document.records.map(|records| records.iter().map(ToOwned::to_owned).collect::<Vec<_>>());
            prop_assert_eq!(read, kept.then_some(records));
        }

        #[test]
        fn any_text_is_parsed_without_a_panic(text in "\\PC{0,64}", payload in "\\PC{0,32}") {
            let _ = parse(&text);
            let _ = parse(&json!({"payload": payload}).to_string());
        }
    }

    #[test]
    fn other_texts_are_rejected() {
        let batch = written(&[1, 2])["DDBStreamBatchInfo"].clone();
        let with = |name: &str, value: Value| {
            let mut batch = batch.clone();
            batch[name] = value;
            json!({"DDBStreamBatchInfo": batch})
        };
        for odd in [
            json!({}),
            json!([]),
            json!(null),
            json!("text"),
            json!({"Records": []}),
            json!({"payload": null}),
            json!({"payload": 7, "DDBStreamBatchInfo": batch}),
            json!({"payload": {"Records": 7}, "DDBStreamBatchInfo": batch}),
            json!({"payload": "{", "DDBStreamBatchInfo": batch}),
            json!({"DDBStreamBatchInfo": {}}),
            json!({"KinesisBatchInfo": batch}),
            with("startSequenceNumber", json!("")),
            with("startSequenceNumber", json!("3")),
            with("endSequenceNumber", json!(null)),
            with("shardId", json!(7)),
            with("batchSize", json!(-1)),
            with("batchSize", json!(MAX_RECORDS + 1)),
            with("batchSize", json!(u64::MAX)),
            json!({"payload": {"Records": vec![7; MAX_RECORDS + 1]}}),
            json!({"payload": json!({"Records": vec![7; MAX_RECORDS + 1]}).to_string()}),
        ] {
            assert_eq!(parse(&odd.to_string()).unwrap_err(), NotADocument, "{odd}");
        }
        assert_eq!(parse("{\"payload\"").unwrap_err(), NotADocument);
        let largest = json!({"payload": {"Records": vec![7; MAX_RECORDS]}}).to_string();
        assert_eq!(parse(&largest).unwrap().records.unwrap().len(), MAX_RECORDS);
        // A batch that is invalid names a stream all the same.
        for (batch, arn) in [
            (
                json!({"DDBStreamBatchInfo": {"streamArn": "other", "batchSize": -1}}),
                Some("other"),
            ),
            (json!({"DDBStreamBatchInfo": {"streamArn": 7}}), Some("")),
            (json!({"KinesisBatchInfo": {"streamArn": "kinesis"}}), Some("kinesis")),
            (json!({}), None),
        ] {
            let mut document = batch;
            document["payload"] = json!({"Records": []});
            assert_eq!(parse(&document.to_string()).unwrap().stream_arn.as_deref(), arn);
        }
        // Records are not validated here: stream-fn does that.
        let document = parse(r#"{"payload": {"Records": [7, {"a":  1.10}]}}"#).unwrap();
        let records: Vec<_> = document.records.iter().flatten().map(String::as_str).collect();
        assert_eq!(records, ["7", r#"{"a":  1.10}"#]);
    }
}
