//! A fake stream, function and destination.

use std::{
    collections::HashMap,
    io,
    sync::{Arc, Mutex},
    time::Duration,
};

use serde_json::{Value, json};
use shared::domain::sequence::SequenceNumber;
use tokio::time::Instant;

use crate::{
    lock,
    mapping::{
        failure::Document,
        position::{Position, Positions},
        record::Record,
        settings::Settings,
        source::{Page, Shard, Source, SourceError},
        *,
    },
};

/// 2025-11-25T15:40:00Z
pub(super) const START: Duration = Duration::from_secs(1_764_085_200);

pub(super) fn sequence(number: usize) -> String {
    format!("{number:021}")
}

pub(super) fn record(number: usize, item: &str) -> Record {
    let json = json!({"dynamodb": {"Keys": {"PK": {"S": item}}, "SequenceNumber": sequence(number)}});
    Record::new(SequenceNumber::new(sequence(number)).unwrap(), START, json)
}

/// Returns records 1 to `count`, each of a separate item.
pub(super) fn records(count: usize) -> Vec<Record> {
    (1..=count).map(|number| record(number, &number.to_string())).collect()
}

/// Responds to the sequence numbers of a batch and the number of the invocation, after a time.
type Respond = dyn Fn(&[String], usize) -> (Duration, InvocationOutcome) + Send + Sync;

/// A shard of the stream.
pub(super) struct Stored {
    pub(super) parent: Option<usize>,
    pub(super) records: Vec<Record>,
    pub(super) is_closed: bool,
}

/// A run of the mapping with its stream, function and destination.
pub(super) struct Run {
    pub(super) settings: Settings,
    pub(super) shards: Vec<Stored>,
    /// Errors of the first reads.
    pub(super) errors: Vec<SourceError>,
    /// One of this number of lists of the shards fails.
    pub(super) failing_lists: usize,
    pub(super) positions: Mutex<HashMap<String, SequenceNumber>>,
    /// `true` if puts fail.
    pub(super) is_denied: bool,
    /// `true` if puts never end.
    pub(super) hangs: bool,
    pub(super) lasts: Duration,
    /// `true` if a record can be read only after its creation.
    pub(super) in_time: bool,
    began: Instant,
    respond: Box<Respond>,
    seen: Mutex<RunResult>,
}

#[derive(Default)]
pub(super) struct RunResult {
    pub(super) batches: Vec<(Duration, Vec<String>)>,
    /// Request id of each batch.
    pub(super) requests: Vec<String>,
    pub(super) documents: Vec<Document>,
    pub(super) dropped: usize,
    pub(super) result: LastProcessingResult,
    pub(super) position: Option<Position>,
    pub(super) lists: usize,
    request_ids: usize,
    reads: usize,
}

impl RunResult {
    /// Returns the sequence numbers of all deliveries.
    pub(super) fn deliveries(&self) -> impl Iterator<Item = &String> {
        self.batches.iter().flat_map(|(_, numbers)| numbers)
    }

    pub(super) fn sizes(&self) -> Vec<usize> {
        self.batches.iter().map(|(_, numbers)| numbers.len()).collect()
    }
}

struct Fakes;

impl Environment for Fakes {
    type Source = Arc<Run>;
    type Invoker = Arc<Run>;
    type Destination = Arc<Run>;
    type Positions = Arc<Run>;
    type Clock = Box<dyn Fn() -> Duration + Send + Sync>;
}

impl Run {
    pub(super) fn new(settings: Settings, records: Vec<Record>) -> Self {
        let shard = Stored {
            parent: None,
            records,
            is_closed: false,
        };
        Self {
            settings,
            shards: vec![shard],
            errors: Vec::new(),
            failing_lists: usize::MAX,
            positions: Mutex::default(),
            is_denied: false,
            hangs: false,
            lasts: Duration::from_secs(600),
            in_time: false,
            began: Instant::now(),
            respond: Box::new(|_, _| (Duration::ZERO, InvocationOutcome::NotInvoked)),
            seen: Mutex::default(),
        }
    }

    pub(super) async fn with(
        self,
        response: impl Fn(&[String], usize) -> InvocationOutcome + Send + Sync + 'static,
    ) -> RunResult {
        self.with_delays(move |numbers, count| (Duration::ZERO, response(numbers, count)))
            .await
    }

    pub(super) async fn succeeding(self) -> RunResult {
        self.with(|_, _| response(&json!({}))).await
    }

    pub(super) async fn with_delays(
        mut self,
        respond: impl Fn(&[String], usize) -> (Duration, InvocationOutcome) + Send + Sync + 'static,
    ) -> RunResult {
        let (began, lasts) = (Instant::now(), self.lasts);
        (self.began, self.respond) = (began, Box::new(respond));
        let run = Arc::new(self);
        let mapping = Mapping::<Fakes> {
            settings: run.settings.clone(),
            identity: Identity {
                uuid: "mapping-1".to_owned(),
                function_arn: "arn:aws:lambda:us-east-1:000000000000:function:stream-fn".to_owned(),
                stream_arn: "arn:aws:dynamodb:us-east-1:000000000000:table/T/stream/1".to_owned(),
            },
            source: run.clone(),
            invoker: run.clone(),
            destination: run.clone(),
            positions: run.clone(),
            clock: Box::new(move || START + began.elapsed()),
            counters: Counters::default(),
        };
        tokio::time::timeout(lasts, mapping.run()).await.unwrap_err();
        RunResult {
            dropped: mapping.counters.get().dropped,
            result: mapping.counters.get().result,
            position: run.load("shard-1"),
            ..std::mem::take(&mut *lock(&run.seen))
        }
    }

    fn exists(&self, record: &Record) -> bool {
        !self.in_time || record.created() <= START + self.began.elapsed()
    }
}

impl Source for Arc<Run> {
    async fn shards(&self) -> Result<Vec<Shard>, SourceError> {
        lock(&self.seen).lists += 1;
        if lock(&self.seen).lists.is_multiple_of(self.failing_lists) {
            return Err(SourceError::Unavailable("a list fails".to_owned()));
        }
        let id = |index| format!("shard-{}", index + 1);
        let shard = |(index, shard): (usize, &Stored)| Shard {
            id: id(index),
            parent: shard.parent.map(id),
        };
        Ok(self.shards.iter().enumerate().map(shard).collect())
    }

    async fn iterator(&self, shard: &str, position: &Position) -> Result<String, SourceError> {
        let number: usize = shard.trim_start_matches("shard-").parse().unwrap();
        let records = &self.shards[number - 1].records;
        let index = match position {
            Position::TrimHorizon => 0,
            Position::Latest => records.partition_point(|record| self.exists(record)),
            Position::After(number) => records.partition_point(|record| record.sequence_number() <= number),
        };
        Ok(format!("{} {index}", number - 1))
    }

    async fn read(&self, iterator: &str) -> Result<Page, SourceError> {
        lock(&self.seen).reads += 1;
        if let Some(error) = self.errors.get(lock(&self.seen).reads - 1) {
            return Err(error.clone());
        }
        let (shard, index) = iterator.split_once(' ').unwrap();
        let (stored, index) = (
            &self.shards[shard.parse::<usize>().unwrap()],
            index.parse::<usize>().unwrap(),
        );
        let records = stored.records[index..].iter().take_while(|record| self.exists(record));
        let records: Vec<_> = records.take(1000).cloned().collect();
        let next = (!stored.is_closed).then(|| format!("{shard} {}", index + records.len()));
        Ok(Page { records, next })
    }
}

impl Positions for Arc<Run> {
    fn load(&self, shard: &str) -> Option<Position> {
        lock(&self.positions).get(shard).cloned().map(Position::After)
    }

    fn save(&self, shard: &str, position: &SequenceNumber) -> io::Result<()> {
        lock(&self.positions).insert(shard.to_owned(), position.clone());
        Ok(())
    }
}

impl Invoker for Arc<Run> {
    fn request_id(&self) -> String {
        let mut seen = lock(&self.seen);
        seen.request_ids += 1;
        format!("request-{}", seen.request_ids)
    }

    async fn invoke(&self, request_id: &str, payload: String) -> InvocationOutcome {
        let event: Value = serde_json::from_str(&payload).unwrap();
        let numbers: Vec<String> = event["Records"].as_array().unwrap().iter().map(number_of).collect();
        let count = {
            let mut seen = lock(&self.seen);
            seen.requests.push(request_id.to_owned());
            seen.batches.push((self.began.elapsed(), numbers.clone()));
            seen.batches.len()
        };
        let (takes, outcome) = (self.respond)(&numbers, count);
        tokio::time::sleep(takes).await;
        outcome
    }
}

impl Destination for Arc<Run> {
    async fn put(&self, document: Document) -> io::Result<()> {
        if self.hangs {
            return std::future::pending().await;
        }
        if self.is_denied {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        lock(&self.seen).documents.push(document);
        Ok(())
    }
}

pub(super) fn number_of(record: &Value) -> String {
    record["dynamodb"]["SequenceNumber"].as_str().unwrap().to_owned()
}

/// Returns the event in a failure document.
pub(super) fn payload(document: &Document) -> Value {
    serde_json::from_str(document.body["payload"].as_str().unwrap()).unwrap()
}

/// Returns the sequence numbers of the records in a failure document.
pub(super) fn numbers_of(document: &Document) -> Vec<String> {
    let payload = payload(document);
    let records = payload["Records"].as_array().unwrap();
    records.iter().map(number_of).collect()
}

pub(super) fn response(json: &Value) -> InvocationOutcome {
    InvocationOutcome::Response(json.to_string().into_bytes())
}

pub(super) fn failing<'a>(numbers: impl IntoIterator<Item = &'a String>) -> InvocationOutcome {
    let failures = numbers.into_iter().map(|number| json!({"itemIdentifier": number}));
    let failures: Vec<_> = failures.collect();
    response(&json!({"batchItemFailures": failures}))
}

pub(super) fn positions_after(number: usize) -> Mutex<HashMap<String, SequenceNumber>> {
    let number = SequenceNumber::new(sequence(number)).unwrap();
    Mutex::new([("shard-1".to_owned(), number)].into())
}

pub(super) fn after(number: usize) -> Option<Position> {
    SequenceNumber::new(sequence(number)).map(Position::After)
}
