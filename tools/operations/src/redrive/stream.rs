//! Records of the table's stream, by sequence number.

use std::collections::HashMap;

use aws_sdk_dynamodbstreams::{
    Client,
    error::{ProvideErrorMetadata, SdkError},
    operation::get_shard_iterator::builders::GetShardIteratorFluentBuilder,
    primitives::{DateTime, DateTimeFormat as Format},
    types::{self, ShardIteratorType},
};
use serde_json::{Map, Value, json};
use shared::{
    domain::{Item, keys::LATEST_KEY, names, sequence::SequenceNumber},
    json,
};

use crate::{
    attached::selection::Selection,
    connection::Connection,
    error::OperationError,
    failures::{
        document::{Batch, MAX_RECORDS},
        table_id::TableId,
    },
    request_error::RequestError,
};

/// Maximum number of consecutive empty pages. A page can be empty before the end of a shard.
const MAX_EMPTY_PAGES: u32 = 50;
/// Error codes for a shard or a part of it that no longer exists. An unknown sequence number is a validation error.
const GONE: [&str; 3] = [
    "TrimmedDataAccessException",
    "ResourceNotFoundException",
    "ValidationException",
];

#[derive(Debug, Clone)]
pub(super) struct TableStream {
    client: Client,
    /// Records that the mapping of an attached table delivers. `None` for another table, of which those of latest items are
    /// delivered.
    attached: Option<Selection>,
}

/// Records of a batch that the stream still has.
#[derive(Debug, Default)]
pub(super) struct Fetched {
    /// Records of latest items between the batch's first and last sequence number, as functions receive them, at most
    /// [`MAX_RECORDS`].
    pub(super) records: Vec<String>,
    pub(super) first: Option<SequenceNumber>,
    /// `true` if they include the batch's first and last record, and therefore all records between.
    pub(super) is_whole: bool,
}

impl TableStream {
    pub(super) fn new(connection: &Connection) -> Self {
        let mut config = aws_sdk_dynamodbstreams::config::Builder::from(&connection.sdk);
        if let Some(url) = &connection.endpoint_url {
            config = config.endpoint_url(url);
        }
        Self {
            client: Client::from_conf(config.build()),
            attached: connection.store.attached_table().map(Selection::new),
        }
    }

    /// Returns the records of a batch.
    ///
    /// # Errors
    ///
    /// Returns [`OperationError`] if a request fails. Records that were trimmed are no error.
    pub(super) async fn fetch(&self, batch: &Batch) -> Result<Fetched, OperationError> {
        let mut fetched = Fetched::default();
        if let Some(iterator) = self.start(batch).await? {
            let attached = self.attached.as_ref();
            let take = async |records: Vec<types::Record>| {
                Ok(records.into_iter().any(|record| fetched.take(record, batch, attached)))
            };
            self.pages(iterator, take).await?;
        }
        Ok(fetched)
    }

    /// Passes the records of the table's streams to `take`, page by page, one shard after the other.
    pub(super) async fn all(
        &self,
        table: &str,
        mut take: impl AsyncFnMut(Vec<String>) -> Result<(), OperationError>,
    ) -> Result<(), OperationError> {
        let name = TableId::of_arn(table).map_or_else(|| table.to_owned(), |table| table.name);
        for stream_arn in self.streams(&name).await? {
            for shard in self.shards(&stream_arn).await? {
                let request = self
                    .client
                    .get_shard_iterator()
                    .stream_arn(&stream_arn)
                    .shard_id(&shard);
                let request = request.shard_iterator_type(ShardIteratorType::TrimHorizon);
                if let Some(iterator) = iterator(request).await? {
                    let take = async |page: Vec<types::Record>| {
                        let delivered = |record| delivered(record, &stream_arn, None);
                        take(page.into_iter().filter_map(delivered).collect()).await?;
                        Ok(false)
                    };
                    self.pages(iterator, take).await?;
                }
            }
        }
        Ok(())
    }

    /// Passes the pages of a shard to `take`, until it returns `true`, the shard ends, or its records were trimmed.
    async fn pages(
        &self,
        iterator: String,
        mut take: impl AsyncFnMut(Vec<types::Record>) -> Result<bool, OperationError>,
    ) -> Result<(), OperationError> {
        let (mut empty_pages, mut next) = (0, Some(iterator));
        while let Some(iterator) = next.filter(|_| empty_pages < MAX_EMPTY_PAGES) {
            let output = self.client.get_records().shard_iterator(iterator).send().await;
            let Some(page) = existing("GetRecords", output)? else {
                break;
            };
            let records = page.records.unwrap_or_default();
            empty_pages = if records.is_empty() { empty_pages + 1 } else { 0 };
            if take(records).await? {
                break;
            }
            next = page.next_shard_iterator;
        }
        Ok(())
    }

    /// Lists the table's streams. A disabled stream can be read for 24 hours.
    async fn streams(&self, table: &str) -> Result<Vec<String>, OperationError> {
        let (mut arns, mut start) = (Vec::new(), None);
        loop {
            let request = self.client.list_streams().table_name(table);
            let page = request.set_exclusive_start_stream_arn(start).send().await;
            let page = page.map_err(|error| RequestError::new("ListStreams", &error))?;
            let streams = page.streams.unwrap_or_default().into_iter();
            arns.extend(streams.filter_map(|stream| stream.stream_arn));
            start = page.last_evaluated_stream_arn;
            if start.is_none() {
                return Ok(arns);
            }
        }
    }

    async fn shards(&self, stream_arn: &str) -> Result<Vec<String>, OperationError> {
        let (mut ids, mut start) = (Vec::new(), None);
        loop {
            let request = self.client.describe_stream().stream_arn(stream_arn);
            let page = request.set_exclusive_start_shard_id(start).send().await;
            let page = page.map_err(|error| RequestError::new("DescribeStream", &error))?;
            let stream = page.stream_description;
            start = stream
                .as_ref()
                .and_then(|stream| stream.last_evaluated_shard_id.clone());
            let shards = stream.and_then(|stream| stream.shards).into_iter().flatten();
            ids.extend(shards.filter_map(|shard| shard.shard_id));
            if start.is_none() {
                return Ok(ids);
            }
        }
    }

    /// Returns an iterator at the first record of the batch, or at the oldest one if that was trimmed. `None` if there is no such
    /// shard.
    async fn start(&self, batch: &Batch) -> Result<Option<String>, OperationError> {
        let request = self.client.get_shard_iterator();
        let request = request.stream_arn(&batch.stream_arn).shard_id(&batch.shard);
        let at = request.clone().shard_iterator_type(ShardIteratorType::AtSequenceNumber);
        match iterator(at.sequence_number(batch.first.as_str())).await? {
            None => iterator(request.shard_iterator_type(ShardIteratorType::TrimHorizon)).await,
            found => Ok(found),
        }
    }
}

async fn iterator(request: GetShardIteratorFluentBuilder) -> Result<Option<String>, OperationError> {
    let output = existing("GetShardIterator", request.send().await)?;
    Ok(output.and_then(|output| output.shard_iterator))
}

/// Returns `None` if the shard does not exist or its records were trimmed.
fn existing<T, E: ProvideErrorMetadata, R>(
    operation: &'static str,
    output: Result<T, SdkError<E, R>>,
) -> Result<Option<T>, OperationError> {
    match output {
        Ok(output) => Ok(Some(output)),
        Err(error) => match RequestError::new(operation, &error) {
            error if error.is(&GONE) => Ok(None),
            error => Err(error.into()),
        },
    }
}

impl Fetched {
    /// Adds a record if it belongs to the batch. Returns `true` at the end of the batch.
    fn take(&mut self, record: types::Record, batch: &Batch, attached: Option<&Selection>) -> bool {
        let number = record
            .dynamodb
            .as_ref()
            .and_then(|change| change.sequence_number.clone());
        let Some(number) = number.and_then(SequenceNumber::new) else {
            return false;
        };
        if number > batch.last {
            return true;
        }
        if number >= batch.first {
            // The range of an edited document can be the whole shard.
            if self.records.len() == MAX_RECORDS {
                self.is_whole = false;
                return true;
            }
            self.first.get_or_insert_with(|| number.clone());
            self.is_whole = number == batch.last && self.first.as_ref() == Some(&batch.first);
            if attached.is_some() || !is_of_other_item(&record) {
                self.records.extend(delivered(record, &batch.stream_arn, attached));
            }
        }
        number == batch.last
    }
}

/// Returns `true` if the record is not one of a latest item, so that no mapping passes it to stream-fn.
fn is_of_other_item(record: &types::Record) -> bool {
    let keys = record.dynamodb.as_ref().and_then(|change| change.keys.as_ref());
    let key = keys.and_then(|keys| keys.get(names::SK));
    key.is_some_and(|key| *key != types::AttributeValue::S(LATEST_KEY.to_owned()))
}

/// Returns a record as functions receive it. `None` if the mapping of an attached table does not deliver it.
fn delivered(record: types::Record, stream_arn: &str, attached: Option<&Selection>) -> Option<String> {
    let change = record.dynamodb?;
    let image = |image: Option<_>| image.map(json_of);
    let created = match change.approximate_creation_date_time {
        Some(created) => Some(json_of_time(created)?),
        None => None,
    };
    let members = [
        ("SequenceNumber", change.sequence_number.map(Value::from)),
        ("Keys", image(change.keys)),
        ("OldImage", image(change.old_image)),
        ("NewImage", image(change.new_image)),
        ("ApproximateCreationDateTime", created),
        (
            "StreamViewType",
            change.stream_view_type.map(|view| json!(view.as_str())),
        ),
        ("SizeBytes", change.size_bytes.map(Value::from)),
    ];
    let dynamodb = members
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value?)));
    let mut json = json!({
        "eventID": record.event_id,
        "eventName": record.event_name.map(|name| name.as_str().to_owned()),
        "eventVersion": record.event_version,
        "eventSource": record.event_source,
        "awsRegion": record.aws_region,
        "dynamodb": dynamodb.collect::<Map<_, _>>(),
        "eventSourceARN": stream_arn,
    });
    if let Some(identity) = record.user_identity {
        json["userIdentity"] = json!({"type": identity.r#type, "principalId": identity.principal_id});
    }
    let is_delivered = attached.is_none_or(|selection| selection.has_record(&json));
    is_delivered.then(|| json.to_string())
}

/// Returns seconds since 1970, with the fraction that the stream has.
fn json_of_time(time: DateTime) -> Option<Value> {
    json::parse(&time.fmt(Format::EpochSeconds).ok()?).ok()
}

fn json_of(image: HashMap<String, types::AttributeValue>) -> Value {
    // Attribute values always have a JSON form.
    serde_json::to_value(Item::from(image)).unwrap_or_default()
}

#[cfg(test)]
mod tests;
