//! A fake stream, function and destination.

use std::{
    collections::HashMap,
    io,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};
use shared::domain::sequence::SequenceNumber;
use tokio::time::Instant;

use crate::mapping::{
    destination::Destination,
    failure::Document,
    position::{InMemory, Position, Positions as _},
    record::Record,
    settings::Settings,
    source::{Page, Shard, Source, SourceError},
    *,
};

/// 2025-11-25T15:40:00Z
pub(super) const START: Duration = Duration::from_secs(1_764_085_200);

pub(super) fn fixture() -> Value {
    serde_json::from_str(include_str!("../../../tests/fixtures/stream-mapping.json")).unwrap()
}

pub(super) fn recorded_settings() -> Settings {
    let settings = &fixture()["settings"];
    let number = |name: &str| settings[name].as_u64().unwrap();
    Settings {
        batch_size: number("BatchSize").try_into().unwrap(),
        batching_window: Duration::from_secs(number("MaximumBatchingWindowInSeconds")),
        maximum_retry_attempts: Some(number("MaximumRetryAttempts").try_into().unwrap()),
        report_batch_item_failures: true,
        ..Settings::default()
    }
}

pub(super) fn sequence(number: usize) -> String {
    format!("{number:021}")
}

pub(super) fn record(number: usize, item: &str) -> Record {
    let json = json!({"dynamodb": {"Keys": {"PK": {"S": item}}, "SequenceNumber": sequence(number)}});
    Record::new(SequenceNumber::new(sequence(number)).unwrap(), START, json)
}

/// Returns the record with another creation time.
pub(super) fn created_after(start: Duration, record: &Record) -> Record {
    Record::new(record.sequence_number().clone(), START + start, record.json().clone())
}

/// Returns records 1 to `count`, each of a separate item.
pub(super) fn records(count: usize) -> Vec<Record> {
    (1..=count).map(|number| record(number, &number.to_string())).collect()
}

pub(super) type Shards = Vec<(Shard, Vec<Record>)>;

#[derive(Default)]
pub(super) struct FakeSource {
    shards: Shards,
    /// Errors of the first reads.
    errors: Mutex<Vec<SourceError>>,
    /// Start of the run, if a record can be read only after its creation.
    in_time: Option<Instant>,
}

impl FakeSource {
    pub(super) fn find(&self, shard: &str) -> &[Record] {
        &self.shards.iter().find(|(known, _)| known.id == shard).unwrap().1
    }
}

impl Source for FakeSource {
    async fn shards(&self) -> Result<Vec<Shard>, SourceError> {
        Ok(self.shards.iter().map(|(shard, _)| shard.clone()).collect())
    }

    async fn iterator(&self, shard: &str, position: &Position) -> Result<String, SourceError> {
        let records = self.find(shard);
        let index = match position {
            Position::TrimHorizon => 0,
            Position::Latest => match self.in_time {
                Some(began) => records.partition_point(|record| record.created() <= START + began.elapsed()),
                None => records.len(),
            },
            Position::After(number) => records.partition_point(|record| record.sequence_number() <= number),
        };
        Ok(format!("{shard} {index}"))
    }

    async fn read(&self, iterator: &str) -> Result<Page, SourceError> {
        if let Some(error) = self.errors.lock().unwrap().pop() {
            return Err(error);
        }
        let (shard, index) = iterator.split_once(' ').unwrap();
        let records: Vec<_> = self
            .find(shard)
            .iter()
            .skip(index.parse().unwrap())
            .take_while(|record| {
                self.in_time
                    .is_none_or(|began| record.created() <= START + began.elapsed())
            })
            .take(1000)
            .cloned()
            .collect();
        let next = index.parse::<usize>().unwrap() + records.len();
        // With several shards, each ends with its records.
        let open = self.shards.len() == 1 || !records.is_empty();
        Ok(Page {
            records,
            next: open.then(|| format!("{shard} {next}")),
        })
    }
}

pub(super) type Respond = dyn Fn(&[String], usize) -> (Duration, InvocationOutcome) + Send + Sync;
/// Arrival time of a batch, and its sequence numbers.
pub(super) type Arrived = (Instant, Vec<String>);

/// Responds with a closure over the sequence numbers of a batch and the number of the invocation.
pub(super) struct FakeFunction {
    response: Box<Respond>,
    batches: Mutex<Vec<Arrived>>,
    /// Request id of each batch.
    requests: Mutex<Vec<String>>,
    request_ids: AtomicUsize,
}

impl Invoker for FakeFunction {
    fn request_id(&self) -> String {
        format!("request-{}", self.request_ids.fetch_add(1, Ordering::Relaxed) + 1)
    }

    async fn invoke(&self, request_id: &str, payload: String) -> InvocationOutcome {
        self.requests.lock().unwrap().push(request_id.to_owned());
        let event: Value = serde_json::from_str(&payload).unwrap();
        let numbers: Vec<String> = event["Records"].as_array().unwrap().iter().map(number_of).collect();
        let count = {
            let mut batches = self.batches.lock().unwrap();
            batches.push((Instant::now(), numbers.clone()));
            batches.len()
        };
        let (takes, outcome) = (self.response)(&numbers, count);
        tokio::time::sleep(takes).await;
        outcome
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

pub(super) struct FakeDestination {
    documents: Mutex<Vec<Document>>,
    /// Number of puts that fail first.
    down: AtomicUsize,
    /// `true` if puts never end.
    hangs: bool,
}

impl Destination for FakeDestination {
    async fn put(&self, document: Document) -> io::Result<()> {
        if self.hangs {
            return std::future::pending().await;
        }
        let fail = |down: usize| down.checked_sub(1);
        if self
            .down
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, fail)
            .is_ok()
        {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        self.documents.lock().unwrap().push(document);
        Ok(())
    }
}

struct Fakes;

impl Environment for Fakes {
    type Source = FakeSource;
    type Invoker = FakeFunction;
    type Destination = FakeDestination;
    type Positions = InMemory;
    type Clock = Box<dyn Fn() -> Duration + Send + Sync>;
}

pub(super) struct RunResult {
    pub(super) batches: Vec<(Duration, Vec<String>)>,
    /// Request id of each batch.
    pub(super) requests: Vec<String>,
    pub(super) documents: Vec<Document>,
    pub(super) dropped: u64,
    pub(super) result: LastProcessingResult,
    pub(super) position: Option<Position>,
}

impl RunResult {
    pub(super) fn deliveries(&self) -> HashMap<String, usize> {
        let mut counts = HashMap::new();
        for number in self.batches.iter().flat_map(|(_, numbers)| numbers) {
            *counts.entry(number.clone()).or_insert(0) += 1;
        }
        counts
    }

    pub(super) fn sizes(&self) -> Vec<usize> {
        self.batches.iter().map(|(_, numbers)| numbers.len()).collect()
    }
}

pub(super) struct Run {
    pub(super) settings: Settings,
    pub(super) shards: Shards,
    pub(super) errors: Vec<SourceError>,
    pub(super) positions: InMemory,
    pub(super) down: usize,
    pub(super) hangs: bool,
    pub(super) lasts: Duration,
    /// `true` if a record can be read only after its creation.
    pub(super) in_time: bool,
}

impl Run {
    pub(super) fn new(settings: Settings, records: Vec<Record>) -> Self {
        let shard = Shard {
            id: "shard-1".to_owned(),
            parent: None,
        };
        Self {
            settings,
            shards: vec![(shard, records)],
            errors: Vec::new(),
            positions: InMemory::default(),
            down: 0,
            hangs: false,
            lasts: Duration::from_secs(600),
            in_time: false,
        }
    }

    pub(super) async fn with(
        self,
        response: impl Fn(&[String], usize) -> InvocationOutcome + Send + Sync + 'static,
    ) -> RunResult {
        self.with_delays(move |numbers, count| (Duration::ZERO, response(numbers, count)))
            .await
    }

    pub(super) async fn responding(self, json: &Value) -> RunResult {
        let response = response(json);
        self.with(move |_, _| response.clone()).await
    }

    pub(super) async fn succeeding(self) -> RunResult {
        self.responding(&json!({})).await
    }

    pub(super) async fn with_delays(
        self,
        response: impl Fn(&[String], usize) -> (Duration, InvocationOutcome) + Send + Sync + 'static,
    ) -> RunResult {
        let began = Instant::now();
        let mapping = Mapping::<Fakes> {
            settings: self.settings.checked().unwrap(),
            identity: Identity {
                uuid: "mapping-1".to_owned(),
                function_arn: "arn:aws:lambda:us-east-1:000000000000:function:stream-fn".to_owned(),
                stream_arn: "arn:aws:dynamodb:us-east-1:000000000000:table/T/stream/1".to_owned(),
            },
            source: FakeSource {
                shards: self.shards,
                errors: Mutex::new(self.errors),
                in_time: self.in_time.then_some(began),
            },
            invoker: FakeFunction {
                response: Box::new(response),
                batches: Mutex::default(),
                requests: Mutex::default(),
                request_ids: AtomicUsize::new(0),
            },
            destination: FakeDestination {
                documents: Mutex::default(),
                down: AtomicUsize::new(self.down),
                hangs: self.hangs,
            },
            positions: self.positions,
            clock: Box::new(move || START + began.elapsed()),
            counters: Counters::default(),
        };
        tokio::time::timeout(self.lasts, mapping.run()).await.unwrap_err();
        let batches = mapping.invoker.batches.into_inner().unwrap().into_iter();
        RunResult {
            batches: batches.map(|(at, numbers)| (at - began, numbers)).collect(),
            requests: mapping.invoker.requests.into_inner().unwrap(),
            documents: mapping.destination.documents.into_inner().unwrap(),
            dropped: mapping.counters.dropped.load(Ordering::Relaxed),
            result: mapping.counters.last_processing_result(),
            position: mapping.positions.load("shard-1"),
        }
    }
}

pub(super) fn positions_after(number: usize) -> InMemory {
    let positions = InMemory::default();
    let number = SequenceNumber::new(sequence(number)).unwrap();
    positions.save("shard-1", &number).unwrap();
    positions
}

pub(super) fn after(number: usize) -> Option<Position> {
    SequenceNumber::new(sequence(number)).map(Position::After)
}
