//! Records of the table's stream, by sequence number.

use aws_sdk_dynamodbstreams::{
    Client,
    error::{ProvideErrorMetadata, SdkError},
    operation::get_shard_iterator::builders::GetShardIteratorFluentBuilder,
    types::{self, ShardIteratorType},
};
use shared::domain::{keys::LATEST_KEY, names, sequence::SequenceNumber};

use crate::{
    connection::Connection,
    error::OperationError,
    failures::{
        document::{Batch, MAX_RECORDS},
        table_id::TableId,
    },
    request_error::RequestError,
    stream_record::{delivered, shards},
};
use attach::selection::Selection;

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

    /// Returns the records of a batch. Records that were trimmed are no error.
    pub(super) async fn fetch(&self, batch: &Batch) -> Result<Fetched, OperationError> {
        let (mut fetched, attached) = (Fetched::default(), self.attached.as_ref());
        let take = async |records: Vec<types::Record>| {
            Ok(records.into_iter().any(|record| fetched.take(record, batch, attached)))
        };
        self.pages(&batch.stream_arn, &batch.shard, Some(&batch.first), take)
            .await?;
        Ok(fetched)
    }

    /// Passes the records of the table's streams to `take`, page by page, one shard after the other. A disabled stream can be read for
    /// 24 hours.
    pub(super) async fn all(
        &self,
        table: &str,
        mut take: impl AsyncFnMut(Vec<String>) -> Result<(), OperationError>,
    ) -> Result<(), OperationError> {
        let name = TableId::of_arn(table).map_or_else(|| table.to_owned(), |table| table.name);
        let (mut arns, mut start) = (Vec::new(), None);
        loop {
            let request = self.client.list_streams().table_name(&name);
            let page = request.set_exclusive_start_stream_arn(start).send().await;
            let page = page.map_err(|error| RequestError::new("ListStreams", &error))?;
            let streams = page.streams.unwrap_or_default().into_iter();
            arns.extend(streams.filter_map(|stream| stream.stream_arn));
            start = page.last_evaluated_stream_arn;
            if start.is_none() {
                break;
            }
        }
        for arn in arns {
            let shards = shards(&self.client, &arn).await;
            let shards = shards.map_err(|error| RequestError::new("DescribeStream", &error))?;
            for shard in shards.into_iter().filter_map(|shard| shard.shard_id) {
                let take = async |page: Vec<types::Record>| {
                    let records = page.into_iter().filter_map(|record| delivered(record, &arn));
                    take(records.map(|record| record.to_string()).collect()).await?;
                    Ok(false)
                };
                self.pages(&arn, &shard, None, take).await?;
            }
        }
        Ok(())
    }

    /// Passes the pages of a shard to `take`, from this record on, or from the oldest one if that was trimmed, until it returns `true`,
    /// the shard ends, or its records were trimmed.
    async fn pages(
        &self,
        stream_arn: &str,
        shard: &str,
        first: Option<&SequenceNumber>,
        mut take: impl AsyncFnMut(Vec<types::Record>) -> Result<bool, OperationError>,
    ) -> Result<(), OperationError> {
        let request = self.client.get_shard_iterator().stream_arn(stream_arn).shard_id(shard);
        let (mut empty_pages, mut next) = (0, None);
        if let Some(first) = first {
            let at = request.clone().shard_iterator_type(ShardIteratorType::AtSequenceNumber);
            next = iterator(at.sequence_number(first.as_str())).await?;
        }
        if next.is_none() {
            next = iterator(request.shard_iterator_type(ShardIteratorType::TrimHorizon)).await?;
        }
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
                let record = delivered(record, &batch.stream_arn);
                let record = record.filter(|record| attached.is_none_or(|selection| selection.has_record(record)));
                self.records.extend(record.map(|record| record.to_string()));
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

#[cfg(test)]
mod tests;
