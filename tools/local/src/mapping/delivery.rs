//! Delivers one batch until each of its records is done or in a failure document.
//!
//! The rules follow AWS's documentation and recordings made on AWS. `docs/adr/0003-event-source-mapping.md` decides the rest:
//!
//! - After a partial response that makes progress, the rest starts with fresh counters (recorded).
//! - With `BisectBatchOnFunctionError`, a batch that fails from its first record is split in half at once. A split uses
//!   no retries (documented). Each half starts with fresh counters (decided), so that a bad record is isolated before its
//!   retries are exhausted.
//! - Throttles and service errors use no retries (documented).

use std::time::Duration;

use sha2::{Digest as _, Sha256};

use super::{
    destination::Destination as _,
    environment::{Clock as _, Environment},
    failure::{Failure, Reason},
    invoker::{Invocation, InvocationOutcome, Invoker as _},
    record::{Record, event},
    response::{self, BatchOutcome},
    shard::{Entry, Shard},
};

/// Delay before the first retry. It doubles up to [`MAX_BACKOFF`].
const INITIAL_BACKOFF: Duration = Duration::from_millis(100);
const MAX_BACKOFF: Duration = Duration::from_secs(1);

/// A part of the batch that is not done yet.
struct Chunk {
    tickets: Vec<u64>,
    records: Vec<Record>,
    /// Number of failed invocations of exactly this chunk.
    failed: u32,
    not_invoked: u32,
    last_request: Option<String>,
}

impl Chunk {
    fn new(entries: impl IntoIterator<Item = Entry>) -> Self {
        let (tickets, records) = entries.into_iter().unzip();
        Self::of(tickets, records)
    }

    fn of(tickets: Vec<u64>, records: Vec<Record>) -> Self {
        Self {
            tickets,
            records,
            failed: 0,
            not_invoked: 0,
            last_request: None,
        }
    }

    /// Splits the chunk before the record at this index.
    fn split(mut self, index: usize) -> (Self, Self) {
        let rest = Self::of(self.tickets.split_off(index), self.records.split_off(index));
        (Self::of(self.tickets, self.records), rest)
    }
}

/// Delivers a batch. Returns when each of its records is done or in a failure document.
pub(super) async fn deliver<E: Environment>(shard: &Shard<'_, E>, batch: Vec<Entry>) {
    // The chunk with the oldest records is on top, so that order is kept.
    let mut chunks = vec![Chunk::new(batch)];
    while let Some(chunk) = chunks.pop() {
        let Some(chunk) = shard.give_up_expired(chunk).await else {
            continue;
        };
        shard.count(|counters| &counters.invocations, 1);
        let invocation = shard.mapping.invoker.invoke(event(&chunk.records).to_string()).await;
        match shard.batch_outcome(&invocation, &chunk.records) {
            Some(BatchOutcome::Done) => {
                shard.notify(|observer| observer.done(&chunk.records));
                shard.done(chunk.tickets);
            }
            Some(BatchOutcome::FailedFrom(index)) if index > 0 => {
                shard.count(|counters| &counters.retries, 1);
                let (done, rest) = chunk.split(index);
                shard.notify(|observer| observer.done(&done.records));
                shard.done(done.tickets);
                chunks.push(rest);
            }
            Some(BatchOutcome::FailedFrom(_) | BatchOutcome::Failed) => {
                chunks.extend(shard.failed(chunk, &invocation).await);
            }
            None => chunks.push(shard.not_invoked(chunk, invocation).await),
        }
    }
}

impl<E: Environment> Shard<'_, E> {
    /// Returns `None` if the invocation did not reach the function.
    fn batch_outcome(&self, invocation: &Invocation, records: &[Record]) -> Option<BatchOutcome> {
        match &invocation.outcome {
            InvocationOutcome::Response(response) if self.mapping.settings.report_batch_item_failures => {
                Some(response::parse(response, records))
            }
            InvocationOutcome::Response(_) => Some(BatchOutcome::Done),
            InvocationOutcome::FunctionError => Some(BatchOutcome::Failed),
            InvocationOutcome::NotInvoked => None,
        }
    }

    /// Bisects, retries or gives up the chunk. Returns the chunks that are left, the oldest records last.
    async fn failed(&self, mut chunk: Chunk, invocation: &Invocation) -> Vec<Chunk> {
        let settings = &self.mapping.settings;
        if settings.bisect_on_function_error && chunk.records.len() > 1 {
            self.count(|counters| &counters.retries, 1);
            self.count(|counters| &counters.bisections, 1);
            let half = chunk.records.len().div_ceil(2);
            let (first, second) = chunk.split(half);
            return vec![second, first];
        }
        chunk.failed += 1;
        chunk.last_request = Some(invocation.request_id.clone());
        if settings.maximum_retry_attempts.is_some_and(|max| chunk.failed > max) {
            let reason = Reason::RetryAttemptsExhausted {
                request_id: invocation.request_id.clone(),
                invoke_count: chunk.failed,
                function_error: invocation.outcome == InvocationOutcome::FunctionError,
            };
            self.give_up(chunk, reason).await;
            return Vec::new();
        }
        self.count(|counters| &counters.retries, 1);
        back_off(chunk.failed).await;
        vec![chunk]
    }

    async fn not_invoked(&self, mut chunk: Chunk, invocation: Invocation) -> Chunk {
        self.count(|counters| &counters.retries, 1);
        chunk.last_request = Some(invocation.request_id);
        chunk.not_invoked += 1;
        back_off(chunk.not_invoked).await;
        chunk
    }

    /// Gives up the records that are too old, which come first, and returns the rest.
    async fn give_up_expired(&self, mut chunk: Chunk) -> Option<Chunk> {
        let Some(max_age) = self.mapping.settings.maximum_record_age else {
            return Some(chunk);
        };
        let now = self.mapping.clock.now();
        let fresh = chunk
            .records
            .iter()
            .position(|record| now.saturating_sub(record.created()) <= max_age);
        let expired = fresh.unwrap_or(chunk.records.len());
        if expired == 0 {
            return Some(chunk);
        }
        let reason = Reason::RecordAgeExceeded {
            request_id: chunk.last_request.take(),
            invoke_count: chunk.failed,
        };
        let (old, rest) = chunk.split(expired);
        self.give_up(old, reason).await;
        Some(rest).filter(|rest| !rest.records.is_empty())
    }

    /// Stores the failure document, with retries until it succeeds, and marks the records as done.
    async fn give_up(&self, chunk: Chunk, reason: Reason) {
        let now = self.mapping.clock.now();
        let failure = Failure {
            identity: &self.mapping.identity,
            shard: self.id,
            records: &chunk.records,
            reason,
            now,
            id: document_id(self.id, &chunk.records, now),
        };
        let document = failure.document();
        let mut failed = 0;
        while self.mapping.destination.put(document.clone()).await.is_err() {
            failed += 1;
            back_off(failed).await;
        }
        self.count(|counters| &counters.documents, 1);
        self.notify(|observer| observer.failed(&chunk.records));
        self.done(chunk.tickets);
    }
}

async fn back_off(failed: u32) {
    let delay = INITIAL_BACKOFF.saturating_mul(1 << failed.saturating_sub(1).min(16));
    tokio::time::sleep(delay.min(MAX_BACKOFF)).await;
}

/// Returns an id in the form of a UUID, derived from the content of the document. It is not random, so that a simulation
/// can be repeated.
fn document_id(shard: &str, records: &[Record], now: Duration) -> String {
    let mut hash = Sha256::new();
    hash.update(shard);
    hash.update(now.as_nanos().to_be_bytes());
    for record in records {
        hash.update(record.sequence_number().as_str());
        hash.update([0]);
    }
    let bytes: [u8; 32] = hash.finalize().into();
    let (id, _) = bytes.split_at(16);
    uuid::Builder::from_slice(id).map_or_else(
        |_| String::new(),
        |builder| builder.with_version(uuid::Version::Custom).into_uuid().to_string(),
    )
}
