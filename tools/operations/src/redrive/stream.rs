//! Records of the table's stream, by sequence number.

use attach::selection::Selection;
use aws_sdk_dynamodbstreams::{
    Client,
    error::{ProvideErrorMetadata, SdkError},
    types::{self, ShardIteratorType},
};
use serde_json::Value;
use shared::domain::{keys::LATEST_KEY, sequence::SequenceNumber};

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
    /// Records that a mapping delivers, between the batch's first and last sequence number, at most [`MAX_RECORDS`].
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
        let mut fetched = Fetched::default();
        let take = async |records: Vec<types::Record>| {
            Ok(records.into_iter().any(|record| self.take(&mut fetched, record, batch)))
        };
        self.pages(&batch.stream_arn, &batch.shard, Some(&batch.first), take)
            .await?;
        Ok(fetched)
    }

    /// Adds a record if it belongs to the batch. Returns `true` at the end of the batch.
    fn take(&self, fetched: &mut Fetched, record: types::Record, batch: &Batch) -> bool {
        let change = record.dynamodb.as_ref();
        let number = change.and_then(|change| SequenceNumber::new(change.sequence_number.clone()?));
        let Some(number) = number.filter(|number| *number >= batch.first) else {
            return false;
        };
        if number > batch.last {
            return true;
        }
        // The range of an edited document can be the whole shard.
        if fetched.records.len() == MAX_RECORDS {
            fetched.is_whole = false;
            return true;
        }
        let is_last = number == batch.last;
        let first = fetched.first.get_or_insert(number);
        fetched.is_whole = is_last && *first == batch.first;
        let record = delivered(record, &batch.stream_arn).filter(|record| self.is_delivered(record));
        fetched.records.extend(record.map(|record| record.to_string()));
        is_last
    }

    /// Returns `false` if no mapping passes the record to stream-fn.
    fn is_delivered(&self, record: &Value) -> bool {
        match &self.attached {
            Some(selection) => selection.has_record(record),
            None => record["dynamodb"]["Keys"]["SK"]["S"]
                .as_str()
                .is_none_or(|key| key == LATEST_KEY),
        }
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
            let page = page.map_err(RequestError::of("ListStreams"))?;
            let streams = page.streams.into_iter().flatten();
            arns.extend(streams.filter_map(|stream| stream.stream_arn));
            start = page.last_evaluated_stream_arn;
            if start.is_none() {
                break;
            }
        }
        for arn in arns {
            let shards = shards(&self.client, &arn).await;
            let shards = shards.map_err(RequestError::of("DescribeStream"))?;
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
        let iterator = async |kind, first: Option<&SequenceNumber>| {
            let request = self.client.get_shard_iterator().stream_arn(stream_arn).shard_id(shard);
            let request = request
                .shard_iterator_type(kind)
                .set_sequence_number(first.map(ToString::to_string));
            let output = existing("GetShardIterator", request.send().await)?;
            Ok::<_, OperationError>(output.and_then(|output| output.shard_iterator))
        };
        let (mut empty_pages, mut next) = (0, None);
        if first.is_some() {
            next = iterator(ShardIteratorType::AtSequenceNumber, first).await?;
        }
        if next.is_none() {
            next = iterator(ShardIteratorType::TrimHorizon, None).await?;
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

/// Returns `None` if the shard does not exist or its records were trimmed.
fn existing<T, E: ProvideErrorMetadata + std::error::Error + 'static>(
    operation: &'static str,
    output: Result<T, SdkError<E>>,
) -> Result<Option<T>, OperationError> {
    match output.map_err(RequestError::of(operation)) {
        Err(error) if error.is(&GONE) => Ok(None),
        output => Ok(Some(output?)),
    }
}

#[cfg(test)]
mod tests;
