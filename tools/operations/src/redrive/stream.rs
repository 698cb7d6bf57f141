//! Records of the table's stream, by sequence number.

use std::collections::HashMap;

use aws_sdk_dynamodbstreams::{
    Client,
    operation::get_shard_iterator::builders::GetShardIteratorFluentBuilder,
    types::{self, ShardIteratorType},
};
use serde_json::{Value, json, value::RawValue};
use shared::domain::{Item, keys::LATEST_KEY, names, sequence::SequenceNumber};

use crate::{
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
pub struct TableStream(Client);

/// Records of a batch that the stream still has.
#[derive(Debug, Default)]
pub struct Fetched {
    /// Records of latest items between the batch's first and last sequence number, as functions receive them, at most
    /// [`MAX_RECORDS`].
    pub records: Vec<Box<RawValue>>,
    pub first: Option<SequenceNumber>,
    /// `true` if they include the batch's first and last record, and therefore all records between.
    pub is_whole: bool,
}

impl TableStream {
    pub fn new(connection: &Connection) -> Self {
        let mut config = aws_sdk_dynamodbstreams::config::Builder::from(&connection.sdk);
        if let Some(url) = &connection.endpoint_url {
            config = config.endpoint_url(url);
        }
        Self(Client::from_conf(config.build()))
    }

    pub async fn fetch(&self, batch: &Batch) -> Result<Fetched, OperationError> {
        let mut fetched = Fetched::default();
        if let Some(iterator) = self.start(batch).await? {
            self.records(iterator, |record| fetched.take(record, batch)).await?;
        }
        Ok(fetched)
    }

    /// Passes every record of the table's streams to `take`, one shard after the other.
    pub async fn all(&self, table: &str, mut take: impl FnMut(Box<RawValue>)) -> Result<(), OperationError> {
        let name = TableId::of_arn(table).map_or_else(|| table.to_owned(), |table| table.name);
        for stream_arn in self.streams(&name).await? {
            for shard in self.shards(&stream_arn).await? {
                let request = self.0.get_shard_iterator().stream_arn(&stream_arn).shard_id(&shard);
                let horizon = request.shard_iterator_type(ShardIteratorType::TrimHorizon);
                if let Some(iterator) = iterator(horizon).await? {
                    self.records(iterator, |record| {
                        delivered(record, &stream_arn).into_iter().for_each(&mut take);
                        false
                    })
                    .await?;
                }
            }
        }
        Ok(())
    }

    /// Passes the records of a shard to `take`, until it returns `true` or the shard ends.
    async fn records(
        &self,
        mut iterator: String,
        mut take: impl FnMut(types::Record) -> bool,
    ) -> Result<(), OperationError> {
        let mut empty_pages = 0;
        while empty_pages < MAX_EMPTY_PAGES {
            let Some((records, next)) = self.page(&iterator).await? else {
                break;
            };
            empty_pages = if records.is_empty() { empty_pages + 1 } else { 0 };
            if records.into_iter().any(&mut take) {
                break;
            }
            match next {
                Some(next) => iterator = next,
                None => break,
            }
        }
        Ok(())
    }

    /// Lists the table's streams. A disabled stream can be read for 24 hours.
    async fn streams(&self, table: &str) -> Result<Vec<String>, OperationError> {
        let mut arns = Vec::new();
        let mut start = None;
        loop {
            let request = self
                .0
                .list_streams()
                .table_name(table)
                .set_exclusive_start_stream_arn(start);
            let page = request
                .send()
                .await
                .map_err(|error| RequestError::new("ListStreams", &error))?;
            arns.extend(
                page.streams
                    .unwrap_or_default()
                    .into_iter()
                    .filter_map(|stream| stream.stream_arn),
            );
            start = page.last_evaluated_stream_arn;
            if start.is_none() {
                return Ok(arns);
            }
        }
    }

    async fn shards(&self, stream_arn: &str) -> Result<Vec<String>, OperationError> {
        let mut shards = Vec::new();
        let mut start = None;
        loop {
            let request = self
                .0
                .describe_stream()
                .stream_arn(stream_arn)
                .set_exclusive_start_shard_id(start);
            let page = request
                .send()
                .await
                .map_err(|error| RequestError::new("DescribeStream", &error))?;
            let Some(stream) = page.stream_description else {
                return Ok(shards);
            };
            shards.extend(
                stream
                    .shards
                    .unwrap_or_default()
                    .into_iter()
                    .filter_map(|shard| shard.shard_id),
            );
            start = stream.last_evaluated_shard_id;
            if start.is_none() {
                return Ok(shards);
            }
        }
    }

    /// Returns an iterator at the first record of the batch, or at the oldest one if that was trimmed. `None` if there is no such
    /// shard.
    async fn start(&self, batch: &Batch) -> Result<Option<String>, OperationError> {
        let request = self
            .0
            .get_shard_iterator()
            .stream_arn(&batch.stream_arn)
            .shard_id(&batch.shard);
        let at = request.clone().shard_iterator_type(ShardIteratorType::AtSequenceNumber);
        let horizon = request.shard_iterator_type(ShardIteratorType::TrimHorizon);
        for request in [at.sequence_number(batch.first.as_str()), horizon] {
            if let Some(iterator) = iterator(request).await? {
                return Ok(Some(iterator));
            }
        }
        Ok(None)
    }

    /// Returns the next records and the next iterator, or `None` if they were trimmed in the meantime.
    async fn page(&self, iterator: &str) -> Result<Option<(Vec<types::Record>, Option<String>)>, OperationError> {
        match self.0.get_records().shard_iterator(iterator).send().await {
            Ok(page) => Ok(Some((page.records.unwrap_or_default(), page.next_shard_iterator))),
            Err(error) => {
                let error = RequestError::new("GetRecords", &error);
                match error.is(&GONE) {
                    true => Ok(None),
                    false => Err(error.into()),
                }
            }
        }
    }
}

/// Returns `None` if the shard does not exist or its records were trimmed.
async fn iterator(request: GetShardIteratorFluentBuilder) -> Result<Option<String>, OperationError> {
    match request.send().await {
        Ok(output) => Ok(output.shard_iterator),
        Err(error) => {
            let error = RequestError::new("GetShardIterator", &error);
            match error.is(&GONE) {
                true => Ok(None),
                false => Err(error.into()),
            }
        }
    }
}

impl Fetched {
    /// Adds a record if it belongs to the batch. Returns `true` at the end of the batch.
    fn take(&mut self, record: types::Record, batch: &Batch) -> bool {
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
            if !is_of_other_item(&record) {
                self.records.extend(delivered(record, &batch.stream_arn));
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

/// Returns a record as functions receive it, with the members that stream-fn reads.
fn delivered(record: types::Record, stream_arn: &str) -> Option<Box<RawValue>> {
    let change = record.dynamodb?;
    let mut dynamodb = json!({"SequenceNumber": change.sequence_number});
    for (name, image) in [("Keys", change.keys), ("NewImage", change.new_image)] {
        if let Some(image) = image {
            dynamodb[name] = json_of(image);
        }
    }
    let json = json!({
        "eventName": record.event_name.map(|name| name.as_str().to_owned()),
        "dynamodb": dynamodb,
        "eventSourceARN": stream_arn,
    });
    RawValue::from_string(json.to_string()).ok()
}

fn json_of(image: HashMap<String, types::AttributeValue>) -> Value {
    // Attribute values always have a JSON form.
    serde_json::to_value(Item::from(image)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use aws_sdk_dynamodbstreams::config::{
        BehaviorVersion, Config, Credentials, Region,
        http::{HttpRequest, HttpResponse},
    };
    use aws_smithy_http_client::test_util::{ReplayEvent, StaticReplayClient};

    use super::*;
    use crate::error::Kind;

    fn responding(responses: impl IntoIterator<Item = Value>) -> (TableStream, StaticReplayClient) {
        let events = responses.into_iter().map(|body| {
            let status: u16 = if body["__type"].is_null() { 200 } else { 400 };
            let response = HttpResponse::new(status.try_into().unwrap(), body.to_string().into());
            ReplayEvent::new(HttpRequest::empty(), response)
        });
        let http = StaticReplayClient::new(events.collect());
        let config = Config::builder()
            .behavior_version(BehaviorVersion::v2026_01_12())
            .region(Region::new("eu-central-1"))
            .credentials_provider(Credentials::for_tests())
            .http_client(http.clone())
            .build();
        (TableStream(Client::from_conf(config)), http)
    }

    fn number(number: u64) -> SequenceNumber {
        SequenceNumber::new(number.to_string()).unwrap()
    }

    fn error(code: &str) -> Value {
        json!({"__type": code})
    }

    fn iterator() -> Value {
        json!({"ShardIterator": "iterator"})
    }

    fn page(numbers: &[u64]) -> Value {
        let record = |n: &u64| json!({"eventName": "INSERT", "dynamodb": {"SequenceNumber": n.to_string()}});
        json!({"Records": numbers.iter().map(record).collect::<Vec<_>>(), "NextShardIterator": "next"})
    }

    /// Number of records of a batch from 8 to 11, the first of them, `true` if it is complete, and the number of requests.
    async fn fetched(responses: impl IntoIterator<Item = Value>) -> (usize, Option<SequenceNumber>, bool, usize) {
        let (stream, http) = responding(responses);
        let batch = Batch {
            stream_arn: "arn:aws:dynamodb:eu-central-1:1:table/T/stream/1".to_owned(),
            shard: "shard-1".to_owned(),
            first: number(8),
            last: number(11),
            size: 3,
        };
        let fetched = stream.fetch(&batch).await.unwrap();
        let requests = http.actual_requests().count();
        (fetched.records.len(), fetched.first, fetched.is_whole, requests)
    }

    #[tokio::test]
    async fn trimmed_records_are_distinguished_from_existing_ones() {
        let (trimmed, gone) = ("TrimmedDataAccessException", "ResourceNotFoundException");
        let whole = [iterator(), page(&[]), page(&[8, 9]), page(&[]), page(&[11, 12])];
        assert_eq!(fetched(whole).await, (3, Some(number(8)), true, 5));
        // The oldest remaining record belongs to the batch, or follows it.
        let half = [error(trimmed), iterator(), page(&[10, 11])];
        assert_eq!(fetched(half).await, (2, Some(number(10)), false, 3));
        let after = [error(trimmed), iterator(), page(&[12])];
        assert_eq!(fetched(after).await, (0, None, false, 3));
        assert_eq!(fetched([error(trimmed), error(trimmed)]).await, (0, None, false, 2));
        assert_eq!(fetched([error(gone), error(gone)]).await, (0, None, false, 2));
        assert_eq!(fetched([iterator(), error(trimmed)]).await, (0, None, false, 2));
        // The end of the shard, and one that has none.
        let closed = [iterator(), json!({"Records": []})];
        assert_eq!(fetched(closed).await, (0, None, false, 2));
        let endless = std::iter::once(iterator()).chain((0..200).map(|_| page(&[])));
        assert_eq!(fetched(endless).await, (0, None, false, 51));
    }

    #[tokio::test]
    async fn records_are_not_lost_after_an_unexpected_error() {
        let batch = Batch {
            stream_arn: String::new(),
            shard: "shard-1".to_owned(),
            first: number(8),
            last: number(8),
            size: 1,
        };
        let refused = error("AccessDeniedException");
        for responses in [
            vec![refused.clone()],
            vec![iterator(), refused.clone()],
            vec![error(GONE[0]), refused],
        ] {
            let (stream, _) = responding(responses);
            let error = stream.fetch(&batch).await.unwrap_err();
            assert_eq!(error.kind(), Kind::Unavailable, "{error}");
            assert!(
                error.to_string().ends_with("failed with AccessDeniedException"),
                "{error}"
            );
        }
    }
}
