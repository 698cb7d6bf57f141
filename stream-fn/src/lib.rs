//! Every new image of a latest item becomes a version item, written once and for ever.
//!
//! Data runs one way: batch → [`record`] (split raw, each record read by itself) → a version item → one request of
//! [`shared::dynamodb`] → its outcome → [`response`].

mod batches;
pub mod error;
pub mod record;
pub mod response;

use aws_lambda_events::event::streams::DynamoDbEventResponse;
use futures::{StreamExt as _, stream};
use lambda_runtime::{LambdaEvent, service_fn};
use serde_json::value::RawValue;
use shared::{
    clock::Deadline,
    config::Config,
    domain::{sequence::SequenceNumber, version_item::VersionItem},
    dynamodb::{
        Store, client,
        record_version::{RecordError, RecordOutcome},
        record_versions::RecordBy,
    },
    logging,
};

use crate::{
    error::{Error, RecordFailure},
    record::Record,
    response::Summary,
};

/// The most puts under way at once. They have different keys, and are idempotent, so their order is free.
const CONCURRENCY: usize = 64;

/// Sets up the function from the environment, and serves invocations until the process ends.
pub async fn run() -> Result<(), lambda_runtime::Error> {
    logging::init();
    let config = Config::from_env()?;
    let client = client::from_env().await;
    let recorder = Recorder::new(client, &config);
    lambda_runtime::run(service_fn(async |event: LambdaEvent<Box<RawValue>>| {
        let deadline = Deadline::at_epoch_millis(event.context.deadline);
        recorder.handle(&event.payload, deadline).await
    }))
    .await
}

/// The function: where it writes.
#[derive(Debug, Clone)]
pub struct Recorder {
    store: Store,
    by: RecordBy,
    log_keys: bool,
}

impl Recorder {
    /// A recorder by the settings of the environment.
    pub fn new(client: aws_sdk_dynamodb::Client, config: &Config) -> Self {
        Self {
            store: Store::new(client, config.table.clone(), config.digits),
            by: config.record_by,
            log_keys: config.log_keys,
        }
    }

    /// A recorder for records that come another way than by the stream.
    pub fn of(store: Store) -> Self {
        Self {
            store,
            by: RecordBy::default(),
            log_keys: false,
        }
    }

    /// Answers one invocation: which records failed, or were not reached in time.
    pub async fn handle(&self, event: &RawValue, deadline: Deadline) -> Result<DynamoDbEventResponse, Error> {
        let records = record::split(event)?;
        self.answer(self.record_all(records, deadline).await)
    }

    /// Writes down what these records ask for, and says what became of each, in their order.
    pub async fn record_all(&self, records: Vec<&RawValue>, deadline: Deadline) -> Vec<Done> {
        match self.by {
            RecordBy::Put => self.record_each(records, deadline).await,
            RecordBy::PartiQl => self.record_in_batches(records, deadline).await,
        }
    }

    async fn record_each(&self, records: Vec<&RawValue>, deadline: Deadline) -> Vec<Done> {
        let mut done: Vec<_> = stream::iter(0..records.len())
            .map(|index| self.work_off(index, records[index], deadline))
            .buffer_unordered(CONCURRENCY)
            .collect()
            .await;
        done.sort_unstable_by_key(|(index, ..)| *index);
        done.into_iter().map(|(_, number, outcome)| (number, outcome)).collect()
    }

    async fn work_off(
        &self,
        index: usize,
        raw: &RawValue,
        deadline: Deadline,
    ) -> (usize, Option<SequenceNumber>, Outcome) {
        let record = record::parse(raw, self.store.digits());
        let outcome = self.record(record.content, deadline).await;
        (index, record.sequence_number, outcome)
    }

    async fn record(&self, content: Result<Record, RecordFailure>, deadline: Deadline) -> Outcome {
        let version = match content {
            Ok(Record::Skipped) => return Ok(None),
            Ok(Record::Version(version)) => version,
            Err(failure) => return Err((None, failure)),
        };
        let put = self.put(&version, deadline).await;
        put.map(Some).map_err(|failure| (Some(version), failure))
    }

    async fn put(&self, version: &VersionItem, deadline: Deadline) -> Result<RecordOutcome, RecordFailure> {
        if !deadline.allows_start() {
            return Err(RecordFailure::NotReached);
        }
        let put = self.store.record_version(version);
        match tokio::time::timeout_at(deadline.finish_by, put).await {
            Ok(outcome) => settled(outcome),
            Err(_) => Err(RecordFailure::NotReached),
        }
    }

    fn answer(&self, done: Vec<Done>) -> Result<DynamoDbEventResponse, Error> {
        let mut summary = Summary::default();
        let mut response = DynamoDbEventResponse::default();
        let mut unnamed = None;
        for (sequence_number, outcome) in done {
            summary.count(&outcome);
            let Err((version, failure)) = outcome else { continue };
            self.log(sequence_number.as_ref(), version.as_ref(), &failure);
            match sequence_number {
                Some(number) => response.batch_item_failures.push(response::failure(&number)),
                None => unnamed = Some(failure),
            }
        }
        summary.log();
        match unnamed {
            Some(failure) => Err(Error::Unnamed(failure)),
            None => Ok(response),
        }
    }

    fn log(&self, number: Option<&SequenceNumber>, version: Option<&VersionItem>, failure: &RecordFailure) {
        let entity = version.map(|version| version.entity().in_logs(self.log_keys));
        tracing::warn!(
            sequence_number = number.map(SequenceNumber::as_str),
            entity,
            version = version.map(|version| version.version().get()),
            outcome = failure.name(),
            error = failure.chain(),
            "record",
        );
    }
}

fn settled(outcome: Result<RecordOutcome, RecordError>) -> Result<RecordOutcome, RecordFailure> {
    match outcome {
        Ok(RecordOutcome::Conflict) => Err(RecordFailure::Conflict),
        outcome => Ok(outcome?),
    }
}

/// What became of a record: put (`None` where there was nothing to put), or failed, and for which version.
pub type Outcome = Result<Option<RecordOutcome>, (Option<VersionItem>, RecordFailure)>;

/// A record, by its sequence number, and what became of it.
pub type Done = (Option<SequenceNumber>, Outcome);
