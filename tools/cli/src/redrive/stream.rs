//! The table's stream, read by sequence number.

use std::collections::HashMap;

use aws_sdk_dynamodbstreams::{
    Client,
    operation::get_shard_iterator::builders::GetShardIteratorFluentBuilder,
    types::{self, ShardIteratorType},
};
use serde_json::{Value, json, value::RawValue};
use shared::domain::{Item, sequence::SequenceNumber};

use super::RequestError;
use crate::{
    connection::Connection,
    error::CliError,
    failures::document::{Batch, table_of},
};

/// How many empty pages in a row mean that nothing more comes: a page can be empty before the end of a shard.
const EMPTY_PAGES: u32 = 50;
/// What a shard that is gone, or a part of it, is answered with. A number that never was is refused.
const GONE: [&str; 3] = [
    "TrimmedDataAccessException",
    "ResourceNotFoundException",
    "ValidationException",
];

/// DynamoDB Streams.
#[derive(Debug, Clone)]
pub(crate) struct TableStream(Client);

/// What a stream still has of a batch.
#[derive(Debug, Default)]
pub(crate) struct Fetched {
    /// The records between the batch's first and its last number, as they are delivered.
    pub(crate) records: Vec<Box<RawValue>>,
    /// The number of the first of them.
    pub(crate) first: Option<SequenceNumber>,
    /// Whether the batch's own first and last record are among them, and with them all between.
    pub(crate) is_whole: bool,
}

impl TableStream {
    pub(crate) fn new(connection: &Connection) -> Self {
        let mut config = aws_sdk_dynamodbstreams::config::Builder::from(&connection.sdk);
        if let Some(url) = &connection.endpoint_url {
            config = config.endpoint_url(url);
        }
        Self(Client::from_conf(config.build()))
    }

    /// The records of a batch, as far as the stream still has them.
    pub(crate) async fn fetch(&self, batch: &Batch) -> Result<Fetched, CliError> {
        let mut fetched = Fetched::default();
        let Some(mut iterator) = self.start(batch).await? else {
            return Ok(fetched);
        };
        let mut empty_pages = 0;
        while empty_pages < EMPTY_PAGES {
            let Some((records, next)) = self.page(&iterator).await? else {
                break;
            };
            empty_pages = if records.is_empty() { empty_pages + 1 } else { 0 };
            if records.into_iter().any(|record| fetched.take(record, batch)) {
                break;
            }
            match next {
                Some(next) => iterator = next,
                None => break,
            }
        }
        Ok(fetched)
    }

    /// Every record that the streams of a table still have, the shards one after the other.
    pub(crate) async fn all(&self, table: &str, mut take: impl FnMut(Box<RawValue>)) -> Result<(), CliError> {
        let table = table_of(table).unwrap_or(table);
        for stream_arn in self.streams(table).await? {
            for shard in self.shards(&stream_arn).await? {
                let request = self.0.get_shard_iterator().stream_arn(&stream_arn).shard_id(&shard);
                let horizon = request.shard_iterator_type(ShardIteratorType::TrimHorizon);
                let Some(mut iterator) = iterator(horizon).await? else {
                    continue;
                };
                let mut empty_pages = 0;
                while empty_pages < EMPTY_PAGES {
                    let Some((records, next)) = self.page(&iterator).await? else {
                        break;
                    };
                    empty_pages = if records.is_empty() { empty_pages + 1 } else { 0 };
                    let records = records.into_iter();
                    records
                        .filter_map(|record| delivered(record, &stream_arn))
                        .for_each(&mut take);
                    match next {
                        Some(next) => iterator = next,
                        None => break,
                    }
                }
            }
        }
        Ok(())
    }

    /// The table's streams: one that was switched off can be read for a day.
    async fn streams(&self, table: &str) -> Result<Vec<String>, CliError> {
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

    async fn shards(&self, stream_arn: &str) -> Result<Vec<String>, CliError> {
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

    /// Where the batch begins, or, if that is trimmed, the oldest record. `None` where there is no such shard.
    async fn start(&self, batch: &Batch) -> Result<Option<String>, CliError> {
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

    /// The next records, and how to go on. `None` where they were trimmed meanwhile.
    async fn page(&self, iterator: &str) -> Result<Option<(Vec<types::Record>, Option<String>)>, CliError> {
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

/// `None` where there is no such shard, or it no longer goes back so far.
async fn iterator(request: GetShardIteratorFluentBuilder) -> Result<Option<String>, CliError> {
    match request.send().await {
        Ok(answer) => Ok(answer.shard_iterator),
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
    /// Takes a record if it is one of the batch. Whether the batch ends here.
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
            self.first.get_or_insert_with(|| number.clone());
            self.is_whole = number == batch.last && self.first.as_ref() == Some(&batch.first);
            self.records.extend(delivered(record, &batch.stream_arn));
        }
        number == batch.last
    }
}

/// A record in the form that functions get, as far as stream-fn looks at it.
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

    /// A stream that gives these answers, one after the other.
    fn answering(answers: impl IntoIterator<Item = Value>) -> (TableStream, StaticReplayClient) {
        let events = answers.into_iter().map(|body| {
            let status: u16 = if body["__type"].is_null() { 200 } else { 400 };
            let answer = HttpResponse::new(status.try_into().unwrap(), body.to_string().into());
            ReplayEvent::new(HttpRequest::empty(), answer)
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

    /// How many records there are of a batch from 8 to 11, the first of them, whether that is all, and how often was asked.
    async fn fetched(answers: impl IntoIterator<Item = Value>) -> (usize, Option<SequenceNumber>, bool, usize) {
        let (stream, http) = answering(answers);
        let batch = Batch {
            stream_arn: "arn:aws:dynamodb:eu-central-1:1:table/T/stream/1".to_owned(),
            shard: "shard-1".to_owned(),
            first: number(8),
            last: number(11),
            size: 3,
        };
        let fetched = stream.fetch(&batch).await.unwrap();
        let asked = http.actual_requests().count();
        (fetched.records.len(), fetched.first, fetched.is_whole, asked)
    }

    #[tokio::test]
    async fn what_is_trimmed_is_told_from_what_is_there() {
        let (trimmed, gone) = ("TrimmedDataAccessException", "ResourceNotFoundException");
        let whole = [iterator(), page(&[]), page(&[8, 9]), page(&[]), page(&[11, 12])];
        assert_eq!(fetched(whole).await, (3, Some(number(8)), true, 5));
        // The oldest record that is left is one of the batch, or comes after it.
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
    async fn what_may_be_there_is_not_called_lost() {
        let batch = Batch {
            stream_arn: String::new(),
            shard: "shard-1".to_owned(),
            first: number(8),
            last: number(8),
            size: 1,
        };
        let refused = error("AccessDeniedException");
        for answers in [
            vec![refused.clone()],
            vec![iterator(), refused.clone()],
            vec![error(GONE[0]), refused],
        ] {
            let (stream, _) = answering(answers);
            let error = stream.fetch(&batch).await.unwrap_err();
            assert_eq!(error.exit_code(), 5, "{error}");
            assert!(
                error.to_string().ends_with("failed with AccessDeniedException"),
                "{error}"
            );
        }
    }
}
