//! The stream of the table, as the source of the mapping.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use aws_sdk_dynamodbstreams::{
    Client,
    error::{DisplayErrorContext, ProvideErrorMetadata, SdkError},
    types::{self, ShardIteratorType},
};
use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use operations::stream_record::{delivered, shards};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use shared::domain::{quarantine, sequence::SequenceNumber};
use uuid::Uuid;

use crate::{
    mapping::{
        position::Position,
        record::Record,
        source::{Page, Shard, Source, SourceError},
    },
    template::resolve::REGION,
};

/// A stream that is read through the DynamoDB Streams API.
#[derive(Debug, Clone)]
pub struct TableStream {
    client: Client,
    arn: String,
    /// ARN of the simulated Kinesis stream, if the records are delivered in Kinesis format.
    kinesis: Option<String>,
    /// Numbers of records that stream-fn has put into quarantine, and of those that left it. They are in the same table.
    quarantined: Arc<[AtomicUsize; 2]>,
}

impl TableStream {
    /// Creates the source of a stream. With the ARN of a Kinesis stream, the records are delivered in its format.
    pub fn new(client: Client, arn: String, kinesis: Option<String>) -> Self {
        Self {
            client,
            arn,
            kinesis,
            quarantined: Arc::default(),
        }
    }

    /// Returns the numbers of records that were put into quarantine, and of those that left it.
    pub fn quarantined(&self) -> [usize; 2] {
        self.quarantined.each_ref().map(|count| count.load(Ordering::Relaxed))
    }

    fn record(&self, record: types::Record) -> Option<Record> {
        let change = record.dynamodb.as_ref()?;
        let sequence_number = SequenceNumber::new(change.sequence_number.clone()?)?;
        let created = change.approximate_creation_date_time?;
        let created = Duration::try_from_secs_f64(created.as_secs_f64()).unwrap_or_default();
        let mut json = delivered(record, &self.arn)?;
        json["awsRegion"] = REGION.into();
        json["dynamodb"]["ApproximateCreationDateTime"] = created.as_secs().into();
        let key = json.pointer("/dynamodb/Keys/SK/S").and_then(Value::as_str);
        let event = json["eventName"]
            .as_str()
            .filter(|_| key.is_some_and(quarantine::is_first));
        if let Some(change) = event.and_then(|event| ["INSERT", "REMOVE"].iter().position(|name| *name == event)) {
            self.quarantined[change].fetch_add(1, Ordering::Relaxed);
        }
        let json = match &self.kinesis {
            Some(arn) => kinesis_record(&json, sequence_number.as_str(), created, arn),
            None => json,
        };
        Some(Record::new(sequence_number, created, json))
    }
}

/// Converts a record to the format of Kinesis Data Streams for `DynamoDB`: base64, without an inner sequence number.
/// See <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/kds.html>.
fn kinesis_record(record: &Value, number: &str, created: Duration, arn: &str) -> Value {
    let change = &record["dynamodb"];
    let table = record["eventSourceARN"].as_str().and_then(|arn| arn.split('/').nth(1));
    let data = json!({
        "awsRegion": REGION,
        "eventID": Uuid::new_v4().to_string(),
        "eventName": record["eventName"],
        "userIdentity": record.get("userIdentity"),
        "recordFormat": "application/json",
        "tableName": table,
        "dynamodb": {
            "ApproximateCreationDateTime": u64::try_from(created.as_micros()).unwrap_or_default(),
            "ApproximateCreationDateTimePrecision": "MICROSECOND",
            "Keys": change["Keys"],
            "NewImage": change["NewImage"],
            "SizeBytes": change["SizeBytes"],
        },
        "eventSource": "aws:dynamodb",
    });
    json!({
        "kinesis": {
            "kinesisSchemaVersion": "1.0",
            "partitionKey": partition_key(&change["Keys"]),
            "sequenceNumber": number,
            "data": BASE64.encode(data.to_string()),
            "approximateArrivalTimestamp": created.as_secs_f64(),
        },
        "eventSource": "aws:kinesis",
        "eventVersion": "1.0",
        "eventID": format!("shardId-000000000000:{number}"),
        "eventName": "aws:kinesis:record",
        "awsRegion": REGION,
        "eventSourceARN": arn,
    })
}

/// Returns the same partition key for all changes of an item, in any order of its key attributes.
fn partition_key(keys: &Value) -> String {
    let mut keys = keys.clone();
    keys.sort_all_objects();
    BASE64.encode(Sha256::digest(keys.to_string().as_bytes()))
}

impl Source for TableStream {
    async fn shards(&self) -> Result<Vec<Shard>, SourceError> {
        let shards = shards(&self.client, &self.arn).await;
        let shards = shards.map_err(|error| source_error(&error))?.into_iter();
        let shard = |shard: types::Shard| {
            Some(Shard {
                id: shard.shard_id?,
                parent: shard.parent_shard_id,
            })
        };
        Ok(shards.filter_map(shard).collect())
    }

    async fn iterator(&self, shard: &str, position: &Position) -> Result<String, SourceError> {
        let request = self.client.get_shard_iterator().stream_arn(&self.arn).shard_id(shard);
        let request = match position {
            Position::TrimHorizon => request.shard_iterator_type(ShardIteratorType::TrimHorizon),
            Position::Latest => request.shard_iterator_type(ShardIteratorType::Latest),
            Position::After(number) => {
                (request.shard_iterator_type(ShardIteratorType::AfterSequenceNumber)).sequence_number(number.as_str())
            }
        };
        let iterator = request
            .send()
            .await
            .map_err(|error| source_error(&error))?
            .shard_iterator;
        iterator.ok_or_else(|| SourceError::Unavailable("no iterator".to_owned()))
    }

    async fn read(&self, iterator: &str) -> Result<Page, SourceError> {
        let request = self.client.get_records().shard_iterator(iterator);
        let read = request.send().await.map_err(|error| source_error(&error))?;
        Ok(Page {
            records: read
                .records
                .unwrap_or_default()
                .into_iter()
                .filter_map(|record| self.record(record))
                .collect(),
            next: read.next_shard_iterator,
        })
    }
}

fn source_error<E>(error: &SdkError<E>) -> SourceError
where
    E: ProvideErrorMetadata + std::error::Error + 'static,
{
    match error.code() {
        Some("ExpiredIteratorException") => SourceError::ExpiredIterator,
        Some("TrimmedDataAccessException") => SourceError::Trimmed,
        Some(code) => SourceError::Unavailable(code.to_owned()),
        None => SourceError::Unavailable(DisplayErrorContext(error).to_string()),
    }
}
