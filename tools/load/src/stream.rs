//! The shards of the stream, their event source mapping and stream-fn.
//!
//! A shard is polled four times a second. Its records go to lanes by their entity. A lane has one invocation at a time. stream-fn
//! inserts 25 versions in a request. It retries throttled ones, and reports the first record whose version is not stored: the
//! mapping delivers the records from there on again, or bisects the batch if it is the first one.

use crate::{
    parameters::{MS, SECOND, micros},
    records::{Record, Request, Set, State, StreamInvocation},
    world::{Event, PERIODS, POLL, World},
};

/// Versions of a request.
const CHUNK: usize = 25;
/// Requests of an invocation at the same time.
const MAX_CONCURRENT_REQUESTS: usize = 8;
/// Delays before the retries of a set of records. The last one repeats.
const RETRY_DELAYS: [u64; 4] = [240 * MS, 390 * MS, 634 * MS, SECOND];

impl World {
    /// Reads a page of a shard. After a full page, the next one is read at once.
    pub(crate) fn poll(&mut self, shard: usize) {
        let read = self.shards[shard].len().min(self.p.page());
        let next = match read == self.p.page() {
            true => self.now + 2 * self.half_latency(),
            false => self.now + POLL,
        };
        self.at(next, Event::Poll { shard });
        if read == 0 {
            return;
        }
        let records: Vec<_> = self.shards[shard].drain(..read).collect();
        for record in records {
            let lane = self.lane(record.entity);
            self.lanes[lane].buffer.push_back(record);
        }
        let lanes = self.p.parallelization_factor as usize;
        (shard * lanes..(shard + 1) * lanes).for_each(|lane| self.gather(lane));
    }

    /// Delivers a batch if the lane is free and the batch is full or has no window.
    fn gather(&mut self, lane: usize) {
        let batch = self.p.batch(self.p.batch_size);
        let state = &mut self.lanes[lane];
        if state.state == State::Busy || state.buffer.is_empty() {
            return;
        }
        if state.buffer.len() >= batch || self.p.batching_window == 0 {
            self.deliver(lane);
        } else if state.state == State::Idle {
            state.state = State::Gathering(self.now);
            let event = Event::Window { lane, opened: self.now };
            self.at(self.now + self.p.batching_window * SECOND, event);
        }
    }

    pub(crate) fn window_ends(&mut self, lane: usize, opened: u64) {
        if self.lanes[lane].state == State::Gathering(opened) {
            self.deliver(lane);
        }
    }

    fn deliver(&mut self, lane: usize) {
        let batch = self.p.batch(self.p.batch_size);
        let state = &mut self.lanes[lane];
        let size = batch.min(state.buffer.len());
        let records = state.buffer.drain(..size).collect();
        state.state = State::Busy;
        state.sets.push(Set::new(records));
        self.attempt(lane);
    }

    /// Invokes stream-fn with the oldest set of a lane, or ends the batch.
    pub(crate) fn attempt(&mut self, lane: usize) {
        while let Some(mut set) = self.lanes[lane].sets.pop() {
            self.drop_expired(&mut set);
            if set.records.is_empty() {
                continue;
            }
            if self.can_invoke(self.stream.running) {
                self.invoke_stream(lane, set);
            } else {
                self.counters.stream.throttled += 1;
                set.not_invoked += 1;
                self.retry_later(lane, set.not_invoked);
                self.lanes[lane].sets.push(set);
            }
            return;
        }
        let state = &mut self.lanes[lane];
        state.state = State::Idle;
        if state.buffer.is_empty() {
            state.throttled = false;
        }
        self.gather(lane);
    }

    fn drop_expired(&mut self, set: &mut Set) {
        let max_age = self.p.max_record_age * SECOND;
        let expired = set
            .records
            .partition_point(|record| self.now - record.created > max_age);
        let dropped: Vec<_> = set.records.drain(..expired).collect();
        self.give_up(&dropped);
    }

    /// Sends records to the on-failure destination.
    fn give_up(&mut self, records: &[Record]) {
        let missing = records.iter().filter(|record| !record.stored).count() as u64;
        self.counters.failed_records += missing;
        self.missing -= missing;
    }

    fn retry_later(&mut self, lane: usize, failures: u32) {
        let index = (failures.saturating_sub(1) as usize).min(RETRY_DELAYS.len() - 1);
        self.at(self.now + RETRY_DELAYS[index], Event::LaneRetry { lane });
    }

    fn invoke_stream(&mut self, lane: usize, set: Set) {
        let size = set.records.len();
        self.stream.running += 1;
        let counted = &mut self.counters.stream;
        counted.count += 1;
        counted.items += size as u64;
        counted.max_concurrency = counted.max_concurrency.max(self.stream.running);
        let requests: Vec<_> = (0..size)
            .step_by(CHUNK)
            .map(|first| Request {
                records: (first..size.min(first + CHUNK)).collect(),
                failures: 0,
            })
            .collect();
        let first = requests.len().min(MAX_CONCURRENT_REQUESTS);
        let invocation = self.streams.insert(StreamInvocation {
            lane,
            started: self.now,
            set,
            open: requests.len(),
            requests,
            not_stored: Vec::new(),
            next: first,
            cpu_free: self.now + micros(self.p.stream_invocation_ms),
        });
        for request in 0..first {
            self.stream_sends(invocation, request);
        }
    }

    /// Sends a request when the invocation has CPU time for it.
    pub(crate) fn stream_sends(&mut self, invocation: usize, request: usize) {
        let half_latency = self.half_latency();
        let cpu = self.p.stream_cpu_micros / 1_000.0;
        let state = &mut self.streams[invocation];
        let records = u32::try_from(state.requests[request].records.len()).unwrap_or(u32::MAX);
        state.cpu_free = state.cpu_free.max(self.now) + micros(cpu * f64::from(records));
        let arrives = state.cpu_free + half_latency;
        self.at(arrives, Event::StreamRequest { invocation, request });
    }

    /// Processes the statements of a request in DynamoDB. Each can be throttled.
    pub(crate) fn stream_requests(&mut self, invocation: usize, request: usize) {
        let indexes = std::mem::take(&mut self.streams[invocation].requests[request].records);
        let throttled: Vec<_> = indexes
            .into_iter()
            .filter(|index| !self.insert(invocation, *index))
            .collect();
        let responds = self.now + self.half_latency();
        let max_attempts = self.p.max_attempts;
        let state = &mut self.streams[invocation];
        if !throttled.is_empty() {
            let request_state = &mut state.requests[request];
            request_state.failures += 1;
            let failures = request_state.failures;
            if failures < max_attempts {
                request_state.records = throttled;
                let delay = self.backoff(failures);
                self.at(responds + delay, Event::StreamSend { invocation, request });
                return;
            }
            state.not_stored.extend(throttled);
        }
        state.open -= 1;
        let next = state.next;
        if next < state.requests.len() {
            state.next += 1;
            self.at(
                responds,
                Event::StreamSend {
                    invocation,
                    request: next,
                },
            );
        } else if state.open == 0 {
            self.at(responds, Event::StreamDone { invocation });
        }
    }

    /// Inserts the version of a record, and returns `false` if the statement is throttled. If the version is already stored, the
    /// condition fails, which consumes as much.
    fn insert(&mut self, invocation: usize, index: usize) -> bool {
        let Record {
            entity,
            created,
            stored,
        } = self.streams[invocation].set.records[index];
        let units = self.p.version_units();
        if !self.write_version(entity, units) {
            let lane = self.streams[invocation].lane;
            self.lanes[lane].throttled = true;
            return false;
        }
        if stored {
            self.counters.repeated_units += units;
            return true;
        }
        self.streams[invocation].set.records[index].stored = true;
        self.counters.stored += 1;
        self.missing -= 1;
        let period = (self.now * PERIODS / self.p.end()).min(PERIODS - 1);
        if let Some(period) = self.periods.get_mut(usize::try_from(period).unwrap_or_default()) {
            period.lag.add(self.now - created);
        }
        true
    }

    pub(crate) fn stream_ends(&mut self, invocation: usize) {
        let state = self.streams.remove(invocation);
        self.stream.running -= 1;
        self.counters.stream.micros += self.now - state.started;
        let lane = state.lane;
        if let Some(first) = state.not_stored.into_iter().min() {
            let is_delayed = self.batch_failed(lane, state.set, first);
            if is_delayed {
                return;
            }
        }
        self.attempt(lane);
    }

    /// Keeps the records that are not done, and returns `true` if the lane waits before the next attempt.
    fn batch_failed(&mut self, lane: usize, mut set: Set, first: usize) -> bool {
        if first > 0 {
            let rest = set.records.split_off(first);
            self.lanes[lane].sets.push(Set::new(rest));
            return false;
        }
        if set.records.len() > 1 {
            let second = set.records.split_off(set.records.len() / 2);
            self.lanes[lane].sets.push(Set::new(second));
            self.lanes[lane].sets.push(Set::new(set.records));
            return false;
        }
        set.failed += 1;
        if self.p.max_retries.is_some_and(|max| set.failed > max) {
            self.give_up(&set.records);
            return false;
        }
        self.retry_later(lane, set.failed);
        self.lanes[lane].sets.push(set);
        true
    }
}
