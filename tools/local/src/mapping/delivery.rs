//! Delivers one batch until each of its records is done or given up.
//!
//! The rules follow AWS's documentation and recordings made on AWS. `docs/adr/0003-event-source-mapping.md` decides the rest:
//!
//! - Each new set of records has a request id and all of its retries: a batch, the rest after a partial response, a half
//!   (recorded). A retry delivers the same set under the same request id (recorded).
//! - With `BisectBatchOnFunctionError`, a batch that fails from its first record is split in half at once, the smaller half
//!   first (recorded). A split uses no retries (documented). A bad record is therefore isolated before its retries are
//!   exhausted.
//! - Throttles and service errors use no retries (documented).
//! - The next set does not wait for the failure document of the one before (recorded).

use std::time::Duration;

use tokio::sync::mpsc;

use super::{
    counters::LastProcessingResult,
    documents::GivenUp,
    environment::{Clock as _, Environment},
    failure::{LastTry, Reason},
    invoker::{InvocationOutcome, Invoker as _, MAX_PAYLOAD},
    record::{Record, event, event_size},
    response::{self, BatchOutcome},
    shard::{Entry, Shard},
};

/// Delays before the retries of a set of records: two recorded ones, then chosen ones that grow by the same ratio up to 1 s.
/// The last one repeats.
const RETRY_DELAYS: [Duration; 4] = [
    Duration::from_millis(240),
    Duration::from_millis(390),
    Duration::from_millis(634),
    Duration::from_secs(1),
];

/// A set of records that is delivered together.
struct Chunk {
    tickets: Vec<u64>,
    records: Vec<Record>,
    /// `None` before the first try.
    request_id: Option<String>,
    /// The event, which all tries send. Empty before the first try.
    payload: String,
    /// Number of failed tries of exactly this set.
    failed: u32,
    not_invoked: u32,
}

/// The result of one try.
enum Try {
    Done,
    /// The function has processed the records before this index, at least one.
    DoneBefore(usize),
    Failed(LastTry),
    /// The invocation did not reach the function.
    NotInvoked,
}

impl Chunk {
    fn new((tickets, records): (Vec<u64>, Vec<Record>)) -> Self {
        Self {
            tickets,
            records,
            request_id: None,
            payload: String::new(),
            failed: 0,
            not_invoked: 0,
        }
    }

    /// Splits off the records before this index, which stay the same set. The rest is a new one.
    fn split(mut self, index: usize) -> (Self, Self) {
        let rest = Self::new((self.tickets.split_off(index), self.records.split_off(index)));
        (self, rest)
    }

    /// Splits the records in two new sets. The first one is the smaller.
    fn bisect(self) -> (Self, Self) {
        let half = self.records.len() / 2;
        let (first, second) = self.split(half);
        (Self::new((first.tickets, first.records)), second)
    }
}

/// The deliveries of one lane.
pub(super) struct Delivery<'a, E: Environment> {
    pub(super) shard: &'a Shard<'a, E>,
    pub(super) given_up: mpsc::Sender<GivenUp>,
}

impl<E: Environment> Delivery<'_, E> {
    /// Delivers a batch. Returns when each of its records is done or given up.
    pub(super) async fn deliver(&self, batch: Vec<Entry>) {
        let shard = self.shard;
        // The chunk with the oldest records is on top, so that order is kept.
        let mut chunks = vec![Chunk::new(batch.into_iter().unzip())];
        while let Some(chunk) = chunks.pop() {
            let Some(mut chunk) = self.give_up_expired(chunk).await else {
                continue;
            };
            match self.attempt(&mut chunk).await {
                Try::Done => {
                    shard.notify(|observer| observer.done(&chunk.records));
                    shard.done(chunk.tickets);
                }
                Try::DoneBefore(index) => {
                    shard.count(|counters| &counters.retries, 1);
                    let (done, rest) = chunk.split(index);
                    shard.notify(|observer| observer.done(&done.records));
                    shard.done(done.tickets);
                    chunks.push(rest);
                }
                Try::Failed(last) => chunks.extend(self.failed(chunk, last).await),
                Try::NotInvoked => {
                    shard.count(|counters| &counters.retries, 1);
                    chunk.not_invoked += 1;
                    back_off(chunk.not_invoked).await;
                    chunks.push(chunk);
                }
            }
        }
    }

    /// Invokes the function with the chunk.
    async fn attempt(&self, chunk: &mut Chunk) -> Try {
        let (invoker, counters) = (&self.shard.mapping.invoker, &self.shard.mapping.counters);
        let request_id = chunk.request_id.get_or_insert_with(|| invoker.request_id());
        if event_size(&chunk.records) > MAX_PAYLOAD {
            counters.set_result(LastProcessingResult::FunctionCallFailed);
            return Try::Failed(LastTry::TooLarge);
        }
        self.shard.count(|counters| &counters.invocations, 1);
        if chunk.payload.is_empty() {
            chunk.payload = event(&chunk.records).to_string();
        }
        let outcome = invoker.invoke(request_id, chunk.payload.clone()).await;
        let (attempt, result) = match outcome {
            InvocationOutcome::Response(response) if self.shard.mapping.settings.report_batch_item_failures => {
                match response::parse(&response, &chunk.records) {
                    BatchOutcome::Done => (Try::Done, LastProcessingResult::Ok),
                    BatchOutcome::FailedFrom(0) => (Try::Failed(LastTry::Response), LastProcessingResult::Ok),
                    BatchOutcome::FailedFrom(index) => (Try::DoneBefore(index), LastProcessingResult::Ok),
                    BatchOutcome::Failed => (
                        Try::Failed(LastTry::Response),
                        LastProcessingResult::InvalidSequenceNumber,
                    ),
                }
            }
            InvocationOutcome::Response(_) => (Try::Done, LastProcessingResult::Ok),
            InvocationOutcome::FunctionError => (
                Try::Failed(LastTry::FunctionError),
                LastProcessingResult::FunctionCallFailed,
            ),
            InvocationOutcome::NotInvoked => (Try::NotInvoked, LastProcessingResult::FunctionCallFailed),
        };
        counters.set_result(result);
        attempt
    }

    /// Bisects, retries or gives up the chunk. Returns the chunks that are left, the oldest records last.
    async fn failed(&self, mut chunk: Chunk, last: LastTry) -> Vec<Chunk> {
        let settings = &self.shard.mapping.settings;
        if settings.bisect_on_function_error && chunk.records.len() > 1 {
            self.shard.count(|counters| &counters.retries, 1);
            self.shard.count(|counters| &counters.bisections, 1);
            let (first, second) = chunk.bisect();
            return vec![second, first];
        }
        chunk.failed += 1;
        if settings.maximum_retry_attempts.is_some_and(|max| chunk.failed > max) {
            self.give_up(chunk, Reason::RetryAttemptsExhausted(last)).await;
            return Vec::new();
        }
        self.shard.count(|counters| &counters.retries, 1);
        back_off(chunk.failed).await;
        vec![chunk]
    }

    /// Gives up the records that are too old, which come first, and returns the rest.
    async fn give_up_expired(&self, chunk: Chunk) -> Option<Chunk> {
        let mapping = self.shard.mapping;
        let Some(max_age) = mapping.settings.maximum_record_age else {
            return Some(chunk);
        };
        let now = mapping.clock.now();
        let fresh = chunk
            .records
            .iter()
            .position(|record| now.saturating_sub(record.created()) <= max_age);
        let expired = fresh.unwrap_or(chunk.records.len());
        if expired == 0 {
            return Some(chunk);
        }
        mapping.counters.set_result(LastProcessingResult::NoRecordsProcessed);
        let (old, rest) = chunk.split(expired);
        self.give_up(old, Reason::RecordAgeExceeded).await;
        Some(rest).filter(|rest| !rest.records.is_empty())
    }

    /// Queues the failure document. Without a try, it counts one, and has a request id of no invocation (recorded).
    async fn give_up(&self, chunk: Chunk, reason: Reason) {
        let request_id = chunk.request_id;
        let given_up = GivenUp {
            tickets: chunk.tickets,
            records: chunk.records,
            request_id: request_id.unwrap_or_else(|| self.shard.mapping.invoker.request_id()),
            invoke_count: chunk.failed.max(1),
            reason,
        };
        // Cannot fail: documents are written until all lanes have ended.
        let _ = self.given_up.send(given_up).await;
    }
}

async fn back_off(failed: u32) {
    let index = usize::try_from(failed).unwrap_or(usize::MAX).saturating_sub(1);
    let delay = RETRY_DELAYS.get(index).or(RETRY_DELAYS.last());
    tokio::time::sleep(delay.copied().unwrap_or_default()).await;
}
