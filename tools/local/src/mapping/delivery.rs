//! Delivers the batches of a lane, one after the other, each until its records are done or given up.
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

use std::{collections::VecDeque, time::Duration};

use tokio::{
    sync::mpsc::{Receiver, Sender, error::TryRecvError},
    time::Instant,
};

use super::{
    counters::LastProcessingResult,
    environment::{Clock as _, Environment, InvocationOutcome, Invoker as _},
    failure::{Failure, LastTry, Reason},
    record::{Record, event, fitting},
    response,
    shard::Shard,
};

/// Delays before the retries of a set of records: two recorded ones, then chosen ones that grow by the same ratio up to 1 s.
/// The last one repeats.
const RETRY_DELAYS: [u64; 4] = [240, 390, 634, 1000];

/// A set of records that is delivered together.
#[derive(Default)]
struct Chunk {
    records: Vec<Record>,
    /// `None` before the first try.
    request_id: Option<String>,
    /// The event, which all tries send. Empty before the first try.
    payload: String,
    /// Number of failed tries of exactly this set.
    failed: usize,
    not_invoked: usize,
}

/// The result of one try.
enum Try {
    /// The function has processed this many records, at least one.
    Processed(usize),
    Failed(LastTry),
    /// The invocation did not reach the function.
    NotInvoked,
}

impl Chunk {
    fn of(records: Vec<Record>) -> Self {
        Self {
            records,
            ..Self::default()
        }
    }
}

/// The deliveries of one lane.
pub(super) struct Delivery<'a, E: Environment> {
    pub(super) shard: &'a Shard<'a, E>,
    pub(super) given_up: Sender<Failure>,
}

impl<E: Environment> Delivery<'_, E> {
    /// Delivers the queued pages, one batch after the other, until the channel is closed.
    pub(super) async fn run(&self, mut pages: Receiver<Vec<Record>>) {
        let settings = &self.shard.mapping.settings;
        let mut buffer = VecDeque::new();
        loop {
            if buffer.is_empty() {
                match pages.recv().await {
                    Some(page) => buffer.extend(page),
                    None => return,
                }
            }
            // Until the batch is full or the batching window ends.
            let until = Instant::now() + settings.batching_window;
            while buffer.len() < settings.batch_size && fitting(&buffer) == buffer.len() {
                let page = match pages.try_recv() {
                    Err(TryRecvError::Empty) if !settings.batching_window.is_zero() => {
                        tokio::time::timeout_at(until, pages.recv()).await.ok().flatten()
                    }
                    page => page.ok(),
                };
                match page {
                    Some(page) => buffer.extend(page),
                    None => break,
                }
            }
            let count = fitting(buffer.iter().take(settings.batch_size)).max(1);
            self.deliver(buffer.drain(..count).collect()).await;
        }
    }

    /// Delivers a batch. Returns when each of its records is done or given up.
    async fn deliver(&self, batch: Vec<Record>) {
        let counters = &self.shard.mapping.counters;
        // The chunk with the oldest records is on top, so that order is kept.
        let mut chunks = vec![Chunk::of(batch)];
        while let Some(chunk) = chunks.pop() {
            let Some(mut chunk) = self.give_up_expired(chunk).await else {
                continue;
            };
            match self.attempt(&mut chunk).await {
                Try::Processed(count) => {
                    let rest = chunk.records.split_off(count);
                    counters.update(|counts| counts.done += count);
                    self.shard.finish(&chunk.records);
                    if !rest.is_empty() {
                        counters.update(|counts| counts.retries += 1);
                        chunks.push(Chunk::of(rest));
                    }
                }
                Try::Failed(last) => chunks.extend(self.failed(chunk, last).await),
                Try::NotInvoked => {
                    counters.update(|counts| counts.retries += 1);
                    chunk.not_invoked += 1;
                    back_off(chunk.not_invoked).await;
                    chunks.push(chunk);
                }
            }
        }
    }

    /// Invokes the function with the chunk.
    async fn attempt(&self, chunk: &mut Chunk) -> Try {
        let mapping = self.shard.mapping;
        let request_id = chunk.request_id.get_or_insert_with(|| mapping.invoker.request_id());
        if fitting(&chunk.records) < chunk.records.len() {
            let failed = LastProcessingResult::FunctionCallFailed;
            mapping.counters.update(|counts| counts.result = failed);
            return Try::Failed(LastTry::TooLarge);
        }
        mapping.counters.update(|counts| counts.invocations += 1);
        if chunk.payload.is_empty() {
            chunk.payload = event(&chunk.records).to_string();
        }
        let outcome = mapping.invoker.invoke(request_id, chunk.payload.clone()).await;
        let (attempt, result) = match outcome {
            InvocationOutcome::Response(response) => {
                let reports = mapping.settings.report_batch_item_failures;
                let processed = match reports {
                    true => response::processed(&response, &chunk.records),
                    false => Some(chunk.records.len()),
                };
                match processed {
                    Some(0) => (Try::Failed(LastTry::Response), LastProcessingResult::OK),
                    Some(count) => (Try::Processed(count), LastProcessingResult::OK),
                    None => (
                        Try::Failed(LastTry::Response),
                        LastProcessingResult::InvalidSequenceNumber,
                    ),
                }
            }
            InvocationOutcome::FunctionError => (
                Try::Failed(LastTry::FunctionError),
                LastProcessingResult::FunctionCallFailed,
            ),
            InvocationOutcome::NotInvoked => (Try::NotInvoked, LastProcessingResult::FunctionCallFailed),
        };
        mapping.counters.update(|counts| counts.result = result);
        attempt
    }

    /// Bisects, retries or gives up the chunk. Returns the chunks that are left, the oldest records last.
    async fn failed(&self, mut chunk: Chunk, last: LastTry) -> Vec<Chunk> {
        let (settings, counters) = (&self.shard.mapping.settings, &self.shard.mapping.counters);
        if settings.bisect_on_function_error && chunk.records.len() > 1 {
            counters.update(|counts| (counts.retries, counts.bisections) = (counts.retries + 1, counts.bisections + 1));
            // The first half is the smaller one.
            let second = chunk.records.split_off(chunk.records.len() / 2);
            return vec![Chunk::of(second), Chunk::of(chunk.records)];
        }
        chunk.failed += 1;
        let max = settings.maximum_retry_attempts;
        if max.is_some_and(|max| chunk.failed > max as usize) {
            self.give_up(chunk, Reason::RetryAttemptsExhausted(last)).await;
            return Vec::new();
        }
        counters.update(|counts| counts.retries += 1);
        back_off(chunk.failed).await;
        vec![chunk]
    }

    /// Gives up the records that are too old, which come first, and returns the rest.
    async fn give_up_expired(&self, mut chunk: Chunk) -> Option<Chunk> {
        let mapping = self.shard.mapping;
        let Some(max_age) = mapping.settings.maximum_record_age else {
            return Some(chunk);
        };
        let now = mapping.clock.now();
        let is_fresh = |record: &Record| now.saturating_sub(record.created()) <= max_age;
        let fresh = chunk.records.iter().position(is_fresh);
        if fresh == Some(0) {
            return Some(chunk);
        }
        let none = LastProcessingResult::NoRecordsProcessed;
        mapping.counters.update(|counts| counts.result = none);
        let rest = chunk.records.split_off(fresh.unwrap_or(chunk.records.len()));
        self.give_up(chunk, Reason::RecordAgeExceeded).await;
        Some(Chunk::of(rest)).filter(|rest| !rest.records.is_empty())
    }

    /// Queues the failure document. Without a try, it counts one, and has a request id of no invocation (recorded).
    async fn give_up(&self, chunk: Chunk, reason: Reason) {
        let request_id = chunk.request_id;
        let failure = Failure {
            records: chunk.records,
            request_id: request_id.unwrap_or_else(|| self.shard.mapping.invoker.request_id()),
            invoke_count: chunk.failed.max(1),
            reason,
        };
        // Cannot fail: documents are written until all lanes have ended.
        let _ = self.given_up.send(failure).await;
    }
}

async fn back_off(failed: usize) {
    let index = (failed - 1).min(RETRY_DELAYS.len() - 1);
    tokio::time::sleep(Duration::from_millis(RETRY_DELAYS[index])).await;
}
