//! One batch: delivered until all of it is done, or given up.
//!
//! What AWS documents or was recorded doing is kept to; where it is silent, this decides (see
//! `docs/adr/0003-event-source-mapping.md`):
//!
//! - A partial answer that makes progress starts the rest afresh (recorded).
//! - With `BisectBatchOnFunctionError`, a batch that fails from its first record on is halved at once. Halving uses up
//!   no retries (documented), and each half starts afresh (decided), so that a bad record is alone before its retries
//!   run out.
//! - Throttles and service errors use up no retries (documented).

use std::time::Duration;

use sha2::{Digest as _, Sha256};

use super::{
    Clock, Invocation, InvocationEnd, Invoker,
    answer::{self, Verdict},
    destination::Destination,
    failure::{Failure, Reason},
    position::Positions,
    record::{Record, event},
    shard::{Entry, Shard},
    source::Source,
};

/// The wait before the first try again. It doubles up to [`LONGEST_WAIT`].
const FIRST_WAIT: Duration = Duration::from_millis(100);
/// The longest wait between two tries.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// A part of the batch that is still to be done.
struct Part {
    tickets: Vec<u64>,
    records: Vec<Record>,
    /// Invocations that failed, since the part is what it is.
    failed: u32,
    /// Invocations that did not reach the function.
    not_invoked: u32,
    last_request: Option<String>,
    function_error: bool,
}

impl Part {
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
            function_error: false,
        }
    }

    /// Cuts off what stands before the index.
    fn split(mut self, index: usize) -> (Self, Self) {
        let rest = Self::of(self.tickets.split_off(index), self.records.split_off(index));
        (Self::of(self.tickets, self.records), rest)
    }
}

/// Delivers a batch. Returns when each of its records is done or in a failure document.
pub(super) async fn deliver<S, I, D, P, C>(shard: &Shard<'_, S, I, D, P, C>, batch: Vec<Entry>)
where
    S: Source,
    I: Invoker,
    D: Destination,
    P: Positions,
    C: Clock,
{
    // The first part is on top, so that order is kept.
    let mut parts = vec![Part::new(batch)];
    while let Some(part) = parts.pop() {
        let Some(part) = shard.give_up_expired(part).await else {
            continue;
        };
        shard.count(|counters| &counters.invocations, 1);
        let invocation = shard.mapping.invoker.invoke(event(&part.records).to_string()).await;
        match shard.verdict(&invocation, &part.records) {
            Some(Verdict::Done) => {
                shard.tell(|watch| watch.done(&part.records));
                shard.done(part.tickets);
            }
            Some(Verdict::FailedFrom(index)) if index > 0 => {
                shard.count(|counters| &counters.retries, 1);
                let (done, rest) = part.split(index);
                shard.tell(|watch| watch.done(&done.records));
                shard.done(done.tickets);
                parts.push(rest);
            }
            Some(Verdict::FailedFrom(_) | Verdict::Failed) => parts.extend(shard.failed(part, &invocation).await),
            None => parts.push(shard.not_invoked(part, invocation).await),
        }
    }
}

impl<S, I, D, P, C> Shard<'_, S, I, D, P, C>
where
    S: Source,
    D: Destination,
    P: Positions,
    C: Clock,
{
    /// `None` where the function was not reached.
    fn verdict(&self, invocation: &Invocation, records: &[Record]) -> Option<Verdict> {
        match &invocation.end {
            InvocationEnd::Answer(answer) if self.mapping.settings.report_batch_item_failures => {
                Some(answer::read(answer, records))
            }
            InvocationEnd::Answer(_) => Some(Verdict::Done),
            InvocationEnd::FunctionError => Some(Verdict::Failed),
            InvocationEnd::NotInvoked => None,
        }
    }

    /// Halves the part, tries it again, or gives it up. What is left to do comes last part first.
    async fn failed(&self, mut part: Part, invocation: &Invocation) -> Vec<Part> {
        let settings = &self.mapping.settings;
        if settings.bisect_on_function_error && part.records.len() > 1 {
            self.count(|counters| &counters.retries, 1);
            self.count(|counters| &counters.bisections, 1);
            let half = part.records.len().div_ceil(2);
            let (first, second) = part.split(half);
            return vec![second, first];
        }
        part.failed += 1;
        part.last_request = Some(invocation.request_id.clone());
        part.function_error = invocation.end == InvocationEnd::FunctionError;
        if settings.maximum_retry_attempts.is_some_and(|most| part.failed > most) {
            let reason = Reason::RetryAttemptsExhausted {
                request_id: invocation.request_id.clone(),
                invoke_count: part.failed,
                function_error: part.function_error,
            };
            self.give_up(part, reason).await;
            return Vec::new();
        }
        self.count(|counters| &counters.retries, 1);
        wait(part.failed).await;
        vec![part]
    }

    async fn not_invoked(&self, mut part: Part, invocation: Invocation) -> Part {
        self.count(|counters| &counters.retries, 1);
        part.last_request = Some(invocation.request_id);
        part.not_invoked += 1;
        wait(part.not_invoked).await;
        part
    }

    /// Gives up the records that are too old, which stand first, and returns the rest.
    async fn give_up_expired(&self, mut part: Part) -> Option<Part> {
        let Some(most) = self.mapping.settings.maximum_record_age else {
            return Some(part);
        };
        let now = self.mapping.clock.now();
        let fresh = part
            .records
            .iter()
            .position(|record| now.saturating_sub(record.created()) <= most);
        let expired = fresh.unwrap_or(part.records.len());
        if expired == 0 {
            return Some(part);
        }
        let reason = Reason::RecordAgeExceeded {
            request_id: part.last_request.take(),
            invoke_count: part.failed,
        };
        let (old, rest) = part.split(expired);
        self.give_up(old, reason).await;
        Some(rest).filter(|rest| !rest.records.is_empty())
    }

    /// Writes the failure document, as often as it takes, and moves on.
    async fn give_up(&self, part: Part, reason: Reason) {
        let now = self.mapping.clock.now();
        let failure = Failure {
            identity: &self.mapping.identity,
            shard: self.id,
            records: &part.records,
            reason,
            now,
            id: document_id(self.id, &part.records, now),
        };
        let document = failure.document();
        let mut tries = 0;
        while self.mapping.destination.keep(document.clone()).await.is_err() {
            tries += 1;
            wait(tries).await;
        }
        self.count(|counters| &counters.documents, 1);
        self.tell(|watch| watch.given_up(&part.records));
        self.done(part.tickets);
    }
}

/// Waits before a try, the longer the more have failed.
async fn wait(failed: u32) {
    let doubled = FIRST_WAIT.saturating_mul(1 << failed.saturating_sub(1).min(16));
    tokio::time::sleep(doubled.min(LONGEST_WAIT)).await;
}

/// An id in the form of a UUID, made from what the document is about: nothing here draws at random, so that a
/// simulation can be run again.
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
