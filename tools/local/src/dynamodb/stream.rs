//! The stream of the table, as the source of the mapping.

use std::time::Duration;

use aws_sdk_dynamodbstreams::{
    Client,
    error::{DisplayErrorContext, ProvideErrorMetadata, SdkError},
    types::{self, ShardIteratorType},
};
use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use shared::domain::{Item, sequence::SequenceNumber};
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
}

impl TableStream {
    pub fn new(client: Client, arn: String) -> Self {
        Self {
            client,
            arn,
            kinesis: None,
        }
    }

    /// Delivers the records in the format of a Kinesis stream with this ARN.
    #[must_use]
    pub fn as_kinesis(self, kinesis: Option<String>) -> Self {
        Self { kinesis, ..self }
    }

    fn record(&self, record: types::Record) -> Option<Record> {
        let change = record.dynamodb?;
        let sequence_number = SequenceNumber::new(change.sequence_number?)?;
        let created = change.approximate_creation_date_time?;
        let created = Duration::try_from_secs_f64(created.as_secs_f64()).unwrap_or_default();
        let members = [
            ("ApproximateCreationDateTime", Some(created.as_secs().into())),
            ("Keys", change.keys.map(image)),
            ("NewImage", change.new_image.map(image)),
            ("OldImage", change.old_image.map(image)),
            ("SequenceNumber", Some(sequence_number.as_str().into())),
            ("SizeBytes", change.size_bytes.map(Value::from)),
            (
                "StreamViewType",
                change.stream_view_type.map(|view| view.as_str().into()),
            ),
        ];
        let members = members.into_iter();
        let dynamodb: Map<_, _> = members
            .filter_map(|(name, value)| Some((name.to_owned(), value?)))
            .collect();
        let mut json = json!({
            "eventID": record.event_id,
            "eventName": record.event_name.map(|name| name.as_str().to_owned()),
            "eventVersion": record.event_version,
            "eventSource": record.event_source,
            "awsRegion": REGION,
            "dynamodb": dynamodb,
            // Not part of the output of GetRecords: the mapping adds it.
            "eventSourceARN": self.arn,
        });
        if let Some(identity) = record.user_identity {
            json["userIdentity"] = json!({"type": identity.r#type, "principalId": identity.principal_id});
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

fn image(item: std::collections::HashMap<String, types::AttributeValue>) -> Value {
    // Attribute values always have a JSON form.
    serde_json::to_value(Item::from(item)).unwrap_or_default()
}

impl Source for TableStream {
    async fn shards(&self) -> Result<Vec<Shard>, SourceError> {
        let mut shards = Vec::new();
        let mut start = None;
        loop {
            let request = self
                .client
                .describe_stream()
                .stream_arn(&self.arn)
                .set_exclusive_start_shard_id(start);
            let described = request
                .send()
                .await
                .map_err(|error| source_error(&error))?
                .stream_description;
            let described = described.ok_or_else(|| SourceError::Unavailable("no description".to_owned()))?;
            let listed = described.shards.unwrap_or_default().into_iter().filter_map(|shard| {
                Some(Shard {
                    id: shard.shard_id?,
                    parent: shard.parent_shard_id,
                })
            });
            shards.extend(listed);
            start = described.last_evaluated_shard_id;
            if start.is_none() {
                return Ok(shards);
            }
        }
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
