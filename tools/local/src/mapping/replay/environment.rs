//! The stream, function, destination and clock of a replay.

use std::{
    collections::BTreeMap,
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use serde::Deserialize;
use serde_json::{Value, json};
use shared::domain::sequence::SequenceNumber;
use tokio::{sync::watch, time::Instant};

use super::{DestinationKind, Document, Function, Invocation, Outcome, Scenario, StreamRecord};
use crate::mapping::{
    self, Clock, Environment, InvocationOutcome, Invoker, RecordObserver,
    destination::Destination,
    position::{InMemory, Position},
    record::Record,
    source::{Page, Shard, Source, SourceError},
};

pub(super) const STREAM_ARN: &str = "arn:aws:dynamodb:us-east-1:000000000000:table/T/stream/2026-01-01T00:00:00.000";
const SHARD: &str = "shardId-1";
/// Time of the start, 2026-09-15T00:00:00Z.
const START: Duration = Duration::from_secs(1_789_430_400);
/// Maximum number of records of one page.
const PAGE: usize = 1000;

pub(super) struct Replaying;

impl Environment for Replaying {
    type Source = Shared;
    type Invoker = Shared;
    type Destination = Shared;
    type Positions = InMemory;
    type Clock = Shared;
}

/// The world around the mapping.
#[derive(Debug, Clone)]
pub(super) struct Shared(Arc<World>);

#[derive(Debug)]
struct World {
    scenario: Scenario,
    reports: bool,
    began: Instant,
    /// The records as the stream contains them.
    records: Vec<Record>,
    tries: Mutex<Vec<Try>>,
    /// Records of each set, by its request id.
    sets: Mutex<BTreeMap<String, Arc<[usize]>>>,
    documents: Mutex<Vec<Document>>,
    requests: Mutex<usize>,
    /// Number of records that are done, failed, dropped or excluded.
    settled: watch::Sender<usize>,
}

/// An invocation whose list of records is shared with its retries.
#[derive(Debug)]
struct Try {
    records: Arc<[usize]>,
    request: String,
    outcome: Outcome,
    at: Duration,
}

impl Shared {
    pub(super) fn new(scenario: &Scenario, reports: bool, began: Instant) -> Self {
        Self(Arc::new(World {
            scenario: scenario.clone(),
            reports,
            began,
            records: scenario.records.iter().enumerate().filter_map(record).collect(),
            tries: Mutex::default(),
            sets: Mutex::default(),
            documents: Mutex::default(),
            requests: Mutex::default(),
            settled: watch::Sender::new(0),
        }))
    }

    pub(super) fn settled(&self) -> impl Future + use<> {
        let (mut settled, all) = (self.0.settled.subscribe(), self.0.records.len());
        async move {
            let _ = settled.wait_for(|settled| *settled >= all).await;
        }
    }

    pub(super) fn take(&self) -> (Vec<Invocation>, Vec<Document>) {
        let tries = std::mem::take(&mut *locked(&self.0.tries));
        let invocation = |one: Try| Invocation {
            records: one.records.to_vec(),
            request: one.request,
            outcome: one.outcome,
            at: one.at,
        };
        let documents = std::mem::take(&mut *locked(&self.0.documents));
        (tries.into_iter().map(invocation).collect(), documents)
    }

    fn settle(&self, count: usize) {
        self.0.settled.send_modify(|settled| *settled += count);
    }

    /// Returns the number of records that were put so far.
    fn put_so_far(&self) -> usize {
        let put = |record: &&StreamRecord| self.put_time(record) <= Instant::now();
        self.0.scenario.records.iter().take_while(put).count()
    }

    fn put_time(&self, record: &StreamRecord) -> Instant {
        self.0.began + Duration::from_secs(record.at.into())
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn sequence_number(index: usize) -> String {
    format!("{:021}", index + 1)
}

/// Returns the index of a record.
fn index(sequence_number: &str) -> usize {
    sequence_number.parse().unwrap_or(1).max(1) - 1
}

fn record((index, given): (usize, &StreamRecord)) -> Option<Record> {
    let number = sequence_number(index);
    let created = START + Duration::from_secs(given.at.into());
    let created = created.saturating_sub(Duration::from_secs(given.age.into()));
    let item = given.item.clone().unwrap_or_else(|| format!("#{index}"));
    let keys = json!({"PK": {"S": item}, "SK": {"S": "v0"}});
    let mut image = keys.clone();
    image["Bad"] = json!({"BOOL": given.bad});
    if given.padding > 0 {
        image["Padding"] = json!({"S": "x".repeat(usize::try_from(given.padding).unwrap_or_default())});
    }
    let json = json!({
        "eventID": index.to_string(),
        "eventName": "MODIFY",
        "eventVersion": "1.1",
        "eventSource": "aws:dynamodb",
        "awsRegion": "us-east-1",
        "dynamodb": {
            "ApproximateCreationDateTime": created.as_secs(),
            "Keys": keys,
            "NewImage": image,
            "SequenceNumber": number,
            "SizeBytes": 100,
            "StreamViewType": "NEW_IMAGE",
        },
        "eventSourceARN": STREAM_ARN,
    });
    Some(Record::new(SequenceNumber::new(number)?, created, json))
}

/// Returns the indices of the records of an event.
fn indices(event: &str) -> Vec<usize> {
    #[derive(Deserialize, Default)]
    #[serde(rename_all = "PascalCase")]
    struct Event {
        records: Vec<Change>,
    }
    #[derive(Deserialize)]
    struct Change {
        dynamodb: Position,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Position {
        sequence_number: String,
    }
    let event: Event = serde_json::from_str(event).unwrap_or_default();
    let numbers = event
        .records
        .iter()
        .map(|change| change.dynamodb.sequence_number.as_str());
    numbers.map(index).collect()
}

/// Returns a name of letters: a to z, then aa, ab.
fn letters(mut number: usize) -> String {
    let mut name = Vec::new();
    loop {
        name.push(b'a' + u8::try_from(number % 26).unwrap_or_default());
        match (number / 26).checked_sub(1) {
            Some(rest) => number = rest,
            None => break,
        }
    }
    name.iter().rev().copied().map(char::from).collect()
}

impl Clock for Shared {
    fn now(&self) -> Duration {
        START + self.0.began.elapsed()
    }
}

impl Source for Shared {
    async fn shards(&self) -> Result<Vec<Shard>, SourceError> {
        let id = SHARD.to_owned();
        Ok(vec![Shard { id, parent: None }])
    }

    async fn iterator(&self, _: &str, position: &Position) -> Result<String, SourceError> {
        let next = match position {
            Position::TrimHorizon => 0,
            Position::After(number) => index(number.as_str()) + 1,
            Position::Latest => {
                let skipped = self.put_so_far();
                self.settle(skipped);
                skipped
            }
        };
        Ok(next.to_string())
    }

    /// Waits for the next record instead of returning empty pages.
    async fn read(&self, iterator: &str) -> Result<Page, SourceError> {
        let next = iterator.parse().unwrap_or_default();
        let Some(record) = self.0.scenario.records.get(next) else {
            return std::future::pending().await;
        };
        tokio::time::sleep_until(self.put_time(record)).await;
        let put = self.0.records.iter().take(self.put_so_far());
        let records: Vec<_> = put.skip(next).take(PAGE).cloned().collect();
        let next = Some((next + records.len()).to_string());
        Ok(Page { records, next })
    }
}

impl Invoker for Shared {
    fn request_id(&self) -> String {
        let mut requests = locked(&self.0.requests);
        *requests += 1;
        letters(*requests - 1)
    }

    async fn invoke(&self, request_id: &str, payload: String) -> InvocationOutcome {
        // The records of a set are parsed and kept once.
        let mut sets = locked(&self.0.sets);
        let records = sets
            .entry(request_id.to_owned())
            .or_insert_with(|| indices(&payload).into())
            .clone();
        drop(sets);
        let is_bad = |index: &&usize| self.0.scenario.records.get(**index).is_some_and(|record| record.bad);
        let failures = |numbers: Vec<String>| {
            let failures = numbers.iter().map(|number| json!({"itemIdentifier": number}));
            let response = json!({"batchItemFailures": failures.collect::<Vec<_>>()});
            InvocationOutcome::Response(response.to_string().into_bytes())
        };
        let bad: Vec<_> = records
            .iter()
            .filter(is_bad)
            .map(|index| sequence_number(*index))
            .collect();
        let (outcome, response) = match self.0.scenario.function {
            _ if bad.is_empty() => (Outcome::Success, failures(bad)),
            Function::Raise => (Outcome::FunctionError, InvocationOutcome::FunctionError),
            Function::Partial => (Outcome::BatchItemFailures, failures(bad)),
            Function::EmptyIdentifier => (Outcome::InvalidResponse, failures(vec![String::new()])),
        };
        locked(&self.0.tries).push(Try {
            records,
            request: request_id.to_owned(),
            outcome: match response {
                InvocationOutcome::Response(_) if !self.0.reports => Outcome::Success,
                _ => outcome,
            },
            at: self.0.began.elapsed(),
        });
        response
    }
}

impl Destination for Shared {
    async fn put(&self, document: mapping::failure::Document) -> io::Result<()> {
        let mut body = document.body;
        let records = indices(body["payload"].as_str().unwrap_or_default());
        match self.0.scenario.destination {
            Some(DestinationKind::S3) => {}
            Some(DestinationKind::Sqs) => drop(body.as_object_mut().and_then(|body| body.remove("payload"))),
            Some(DestinationKind::Denied) | None => return Err(io::ErrorKind::PermissionDenied.into()),
        }
        let context = &body["requestContext"];
        let text = |name: &str| context[name].as_str().unwrap_or_default().to_owned();
        locked(&self.0.documents).push(Document {
            records,
            condition: text("condition"),
            approximate_invoke_count: context["approximateInvokeCount"].as_u64().unwrap_or_default(),
            request: text("requestId"),
            payload: match body.get("payload") {
                Some(Value::String(_)) => Some("string"),
                Some(Value::Object(_)) => Some("object"),
                _ => None,
            },
            at: self.0.began.elapsed(),
            body,
        });
        Ok(())
    }
}

#[derive(Debug)]
pub(super) struct Observer(pub(super) Shared);

impl RecordObserver for Observer {
    fn filtered(&self, _: &Record) {
        self.0.settle(1);
    }

    fn queued(&self, _: &[&Record]) {}

    fn done(&self, records: &[Record]) {
        self.0.settle(records.len());
    }

    fn failed(&self, records: &[Record]) {
        self.0.settle(records.len());
    }

    fn dropped(&self, records: &[Record]) {
        self.0.settle(records.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_lettered() {
        let names: Vec<_> = [0, 1, 25, 26, 27, 26 + 26 * 26 - 1, 26 + 26 * 26].map(letters).into();
        assert_eq!(names, ["a", "b", "z", "aa", "ab", "zz", "aaa"]);
    }
}
