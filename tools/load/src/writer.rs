//! The queue, its event source mapping and writer-fn.
//!
//! The mapping receives a full batch as soon as one waits, and what waits twenty times a second. Updates of one entity in a batch
//! are written one after the other, different entities concurrently. A throttled request is retried by the SDK; then its message
//! and the later ones of its entity fail, and become visible again after the visibility timeout.

use std::collections::{HashMap, VecDeque};

use crate::{
    messages::{Lane, WriterInvocation},
    parameters::{SECOND, SLACK, micros},
    records::Record,
    world::{Event, RETRY_TOKENS, World},
};

/// Lanes of an invocation that are processed at the same time.
const MAX_CONCURRENT_LANES: usize = 32;
/// Retry tokens that a retry costs.
const RETRY_COST: u32 = 5;

impl World {
    /// Starts an invocation for each full batch that waits.
    pub(crate) fn receive_full_batches(&mut self) {
        let batch = self.p.batch(self.p.queue_batch_size);
        while self.queue.len() >= batch && self.can_receive(batch) {
            self.invoke_writer(batch);
        }
    }

    /// Starts an invocation for the messages that wait.
    pub(crate) fn receive_rest(&mut self) {
        let waiting = self.queue.len().min(self.p.batch(self.p.queue_batch_size));
        if waiting > 0 && self.can_receive(waiting) {
            self.invoke_writer(waiting);
        }
    }

    fn can_receive(&mut self, messages: usize) -> bool {
        if self.writer.running >= self.p.queue_concurrency {
            return false;
        }
        if self.in_flight + messages > self.p.messages_in_flight {
            self.second.in_flight = true;
            return false;
        }
        let can = self.can_invoke(self.writer.running);
        if !can {
            self.counters.writer.throttled += 1;
        }
        can
    }

    fn invoke_writer(&mut self, size: usize) {
        let mut by_entity: HashMap<u32, usize> = HashMap::with_capacity(size);
        let mut lanes: Vec<Lane> = Vec::with_capacity(size);
        for mut message in self.queue.drain(..size) {
            message.deliveries += 1;
            let lane = *by_entity.entry(message.entity).or_insert(lanes.len());
            if lane == lanes.len() {
                lanes.push(Lane {
                    messages: VecDeque::new(),
                    failures: 0,
                });
            }
            lanes[lane].messages.push_back(message);
        }
        self.in_flight += size;
        self.writer.running += 1;
        let counted = &mut self.counters.writer;
        counted.count += 1;
        counted.items += size as u64;
        counted.max_concurrency = counted.max_concurrency.max(self.writer.running);
        let first = lanes.len().min(MAX_CONCURRENT_LANES);
        let invocation = self.writers.insert(WriterInvocation {
            started: self.now,
            size,
            open: lanes.len(),
            lanes,
            next: first,
            cpu_free: self.now + micros(self.p.writer_invocation_ms),
            tokens: self.writer.idle.pop().unwrap_or(RETRY_TOKENS),
            failed: Vec::new(),
        });
        for lane in 0..first {
            self.writer_sends(invocation, lane);
        }
    }

    /// Sends the request of the first message of a lane, when the invocation has CPU time for it.
    pub(crate) fn writer_sends(&mut self, invocation: usize, lane: usize) {
        let cpu = micros(self.p.writer_cpu_micros / 1_000.0);
        let state = &mut self.writers[invocation];
        state.cpu_free = state.cpu_free.max(self.now) + cpu;
        let arrives = state.cpu_free + self.half_latency();
        self.at(arrives, Event::WriterRequest { invocation, lane });
    }

    /// Processes a request in DynamoDB.
    pub(crate) fn writer_requests(&mut self, invocation: usize, lane: usize) {
        let Some(entity) = self.writers[invocation].lanes[lane]
            .messages
            .front()
            .map(|message| message.entity)
        else {
            return;
        };
        let above = self.above[entity as usize];
        // A full map rejects the request. The next one prunes the map, and costs as much as the item before it.
        let is_rejected = above == SLACK;
        let units = self.p.latest_units(if above > SLACK {
            SLACK
        } else {
            above.saturating_add(1).min(SLACK)
        });
        if !self.write_latest(entity, units) {
            self.writer_is_throttled(invocation, lane);
        } else if is_rejected {
            self.above[entity as usize] = SLACK + 1;
            self.writer_continues(invocation, lane, 0);
        } else {
            self.above[entity as usize] = if above > SLACK { 0 } else { above + 1 };
            self.is_applied(entity);
            let state = &mut self.writers[invocation].lanes[lane];
            state.messages.pop_front();
            state.failures = 0;
            self.writer_continues(invocation, lane, 0);
        }
    }

    fn is_applied(&mut self, entity: u32) {
        self.counters.accepted += 1;
        self.missing += 1;
        let partition = self.partition(entity);
        self.shards[partition].push_back(Record::new(entity, self.now));
    }

    fn writer_is_throttled(&mut self, invocation: usize, lane: usize) {
        let state = &mut self.writers[invocation];
        state.lanes[lane].failures += 1;
        let failures = state.lanes[lane].failures;
        if failures < self.p.max_attempts && state.tokens >= RETRY_COST {
            state.tokens -= RETRY_COST;
            let delay = self.backoff(failures);
            self.writer_continues(invocation, lane, delay);
            return;
        }
        let messages = std::mem::take(&mut state.lanes[lane].messages);
        state.failed.extend(messages);
        self.writer_continues(invocation, lane, 0);
    }

    /// Continues a lane after the response, and after a delay. A lane without messages ends.
    fn writer_continues(&mut self, invocation: usize, lane: usize, delay: u64) {
        let responds = self.now + self.half_latency();
        let state = &mut self.writers[invocation];
        if !state.lanes[lane].messages.is_empty() {
            self.at(responds + delay, Event::WriterSend { invocation, lane });
            return;
        }
        state.open -= 1;
        let next = state.next;
        if next < state.lanes.len() {
            state.next += 1;
            self.at(responds, Event::WriterSend { invocation, lane: next });
        } else if state.open == 0 {
            self.at(responds, Event::WriterDone { invocation });
        }
    }

    pub(crate) fn writer_ends(&mut self, invocation: usize) {
        let state = self.writers.remove(invocation);
        self.writer.running -= 1;
        // Successful first attempts give tokens back.
        let succeeded = u32::try_from(state.size - state.failed.len()).unwrap_or(u32::MAX);
        self.writer
            .idle
            .push(state.tokens.saturating_add(succeeded).min(RETRY_TOKENS));
        self.counters.writer.micros += self.now - state.started;
        let (dead, returned): (Vec<_>, Vec<_>) = state
            .failed
            .into_iter()
            .partition(|message| message.deliveries >= self.p.max_receive_count);
        self.counters.dead_letters += dead.len() as u64;
        // A dead letter is moved when it would be delivered again, after the visibility timeout.
        self.in_flight -= state.size - returned.len();
        if !returned.is_empty() {
            self.counters.returned += returned.len() as u64;
            let messages = self.invisible.insert(returned);
            let visible = state.started + self.p.visibility_timeout * SECOND;
            self.at(visible.max(self.now), Event::Visible { messages });
        }
        self.receive_full_batches();
    }

    pub(crate) fn become_visible(&mut self, messages: usize) {
        let messages = self.invisible.remove(messages);
        self.in_flight -= messages.len();
        self.queue.extend(messages);
        self.receive_full_batches();
    }
}
