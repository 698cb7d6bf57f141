//! Every new image of a latest item becomes a version item, written once and for ever.
//!
//! Data runs one way: batch → [`record`] (split raw, each record read by itself) → version items → requests of
//! [`shared::dynamodb`], one for many of them → their outcomes → [`response`].

pub mod error;
mod metrics;
mod part;
pub mod record;
pub mod response;

use std::time::Duration;

use aws_lambda_events::event::streams::DynamoDbEventResponse;
use futures::{StreamExt as _, stream};
use lambda_runtime::{LambdaEvent, service_fn};
use serde_json::value::RawValue;
use shared::{
    clock::Deadline,
    config::Config,
    domain::{request_id::RequestId, sequence::SequenceNumber, time::EpochMillis, version_item::VersionItem},
    dynamodb::{Store, client, insert_versions::MAX_STATEMENTS, record_version::RecordOutcome},
    logging,
    metrics::Tally,
    spans,
};
use tracing::Instrument as _;

use crate::{
    error::{Error, RecordFailure},
    response::Summary,
};

/// How long the start may wait for the table.
const WARM_UP_TIMEOUT: Duration = Duration::from_secs(1);
/// The most parts of a batch under way at once. What is not begun is not parsed yet.
const PARTS: usize = 8;

/// Sets up the function from the environment, and serves invocations until the process ends.
pub async fn run() -> Result<(), lambda_runtime::Error> {
    logging::init();
    metrics::init();
    let config = Config::from_env()?;
    let client = client::from_env().await;
    let recorder = Recorder::new(client, &config);
    recorder.warm_up().await;
    lambda_runtime::run(service_fn(async |event: LambdaEvent<Box<RawValue>>| {
        let (context, deadline) = (&event.context, Deadline::at_epoch_millis(event.context.deadline));
        let span = spans::invocation("stream-fn", &context.request_id, context.xray_trace_id.as_deref());
        let answer = recorder.handle(&event.payload, &context.request_id, deadline);
        let answer = answer.instrument(span).await;
        spans::flush();
        answer
    }))
    .await
}

/// The function: where it writes.
#[derive(Debug, Clone)]
pub struct Recorder {
    store: Store,
    log_keys: bool,
}

impl Recorder {
    /// A recorder by the settings of the environment.
    pub fn new(client: aws_sdk_dynamodb::Client, config: &Config) -> Self {
        Self {
            store: Store::new(client, config.table.clone(), config.digits),
            log_keys: config.log_keys,
        }
    }

    /// A recorder for records that come another way than by the stream.
    pub fn of(store: Store) -> Self {
        Self { store, log_keys: false }
    }

    /// Makes one cheap request, whatever comes of it: while a function starts it has all of a CPU, and later only as much
    /// of one as it has memory. So the connection, and all that is made with the first request, is there before the
    /// first invocation.
    async fn warm_up(&self) {
        let _ = tokio::time::timeout(WARM_UP_TIMEOUT, self.store.kept_digits()).await;
    }

    /// Answers one invocation: which records failed, or were not reached in time. `request_id` is Lambda's.
    pub async fn handle(
        &self,
        event: &RawValue,
        request_id: &str,
        deadline: Deadline,
    ) -> Result<DynamoDbEventResponse, Error> {
        let records = record::split(event)?;
        let done = self.record_all(records, deadline).await;
        let tally = Tally::default();
        metrics::batch(&tally, &done, deadline);
        tally.emit(request_id);
        self.answer(done)
    }

    /// Writes down what these records ask for, and says what became of each, in their order.
    pub async fn record_all(&self, records: Vec<&RawValue>, deadline: Deadline) -> Vec<Done> {
        let parts: Vec<_> = records.chunks(MAX_STATEMENTS).collect();
        let mut done: Vec<_> = stream::iter(0..parts.len())
            .map(|index| self.work_off(index, parts[index], deadline))
            .buffer_unordered(PARTS)
            .collect()
            .await;
        done.sort_unstable_by_key(|(index, _)| *index);
        done.into_iter().flat_map(|(_, done)| done).collect()
    }

    async fn work_off(&self, index: usize, part: &[&RawValue], deadline: Deadline) -> (usize, Vec<Done>) {
        let span = tracing::info_span!("part", records = part.len());
        (index, self.record(part, deadline).instrument(span).await)
    }

    fn answer(&self, done: Vec<Done>) -> Result<DynamoDbEventResponse, Error> {
        let mut summary = Summary::default();
        let mut response = DynamoDbEventResponse::default();
        let mut unnamed = None;
        for done in done {
            summary.count(&done.outcome);
            if let (Ok(Some(_)), Some(request)) = (&done.outcome, &done.request) {
                summary.wrote_down(request.in_logs());
            }
            if let Err((version, failure)) = &done.outcome {
                self.log(&done, version.as_ref(), failure);
            }
            let Err((_, failure)) = done.outcome else { continue };
            match done.sequence_number {
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

    fn log(&self, done: &Done, version: Option<&VersionItem>, failure: &RecordFailure) {
        let request = done.request.as_ref().map(RequestId::in_logs);
        let entity = version.map(|version| version.entity().in_logs(self.log_keys));
        tracing::warn!(
            sequence_number = done.sequence_number.as_ref().map(SequenceNumber::as_str),
            entity,
            request,
            version = version.map(|version| version.version().get()),
            outcome = failure.name(),
            error = failure.chain(),
            "record",
        );
    }
}

/// What became of a record: put (`None` where there was nothing to put), or failed, and for which version.
pub type Outcome = Result<Option<RecordOutcome>, (Option<VersionItem>, RecordFailure)>;

/// A record, and what became of it.
#[derive(Debug)]
pub struct Done {
    /// What names it in the answer.
    pub sequence_number: Option<SequenceNumber>,
    /// When the latest item was written.
    pub created: Option<EpochMillis>,
    /// The request that made the version.
    pub request: Option<RequestId>,
    /// What became of it.
    pub outcome: Outcome,
}
