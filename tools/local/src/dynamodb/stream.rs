//! The table's stream, as a source of the mapping.

use std::time::Duration;

use aws_sdk_dynamodbstreams::{
    Client,
    error::{DisplayErrorContext, ProvideErrorMetadata, SdkError},
    types::{self, ShardIteratorType},
};
use serde_json::{Map, Value, json};
use shared::domain::{Item, sequence::SequenceNumber};

use crate::{
    mapping::{
        position::Position,
        record::Record,
        source::{Page, Shard, Source, SourceError},
    },
    template::resolve::REGION,
};

/// A stream behind the API of DynamoDB Streams.
#[derive(Debug, Clone)]
pub struct TableStream {
    client: Client,
    arn: String,
}

impl TableStream {
    /// The stream of this ARN.
    pub fn new(client: Client, arn: String) -> Self {
        Self { client, arn }
    }

    fn record(&self, record: types::Record) -> Option<Record> {
        let change = record.dynamodb?;
        let sequence_number = SequenceNumber::new(change.sequence_number?)?;
        let created = change.approximate_creation_date_time?;
        let created = Duration::try_from_secs_f64(created.as_secs_f64()).unwrap_or_default();
        let mut dynamodb = Map::new();
        let mut insert = |name: &str, value: Option<Value>| {
            dynamodb.extend(value.map(|value| (name.to_owned(), value)));
        };
        insert("ApproximateCreationDateTime", Some(created.as_secs().into()));
        insert("Keys", change.keys.map(image));
        insert("NewImage", change.new_image.map(image));
        insert("OldImage", change.old_image.map(image));
        insert("SequenceNumber", Some(sequence_number.as_str().into()));
        insert("SizeBytes", change.size_bytes.map(Value::from));
        insert(
            "StreamViewType",
            change.stream_view_type.map(|view| view.as_str().into()),
        );
        let mut json = json!({
            "eventID": record.event_id,
            "eventName": record.event_name.map(|name| name.as_str().to_owned()),
            "eventVersion": record.event_version,
            "eventSource": record.event_source,
            "awsRegion": REGION,
            "dynamodb": dynamodb,
            // Not in what the stream itself returns: the mapping adds it.
            "eventSourceARN": self.arn,
        });
        if let Some(identity) = record.user_identity {
            json["userIdentity"] = json!({"type": identity.r#type, "principalId": identity.principal_id});
        }
        Some(Record::new(sequence_number, created, json))
    }
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
