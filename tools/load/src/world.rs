//! The simulated system: time, events and state that all parts share.
//!
//! ```text
//! arrival ─> queue ─> writer-fn ─> v0 ─> shard ─> lane ─> stream-fn ─> vN
//!                        └── tables: partitions with token buckets ──┘
//! ```
//!
//! A heap contains future events in the order of their times. Nothing else moves time, so a run depends on its parameters only.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, VecDeque},
};

use slab::Slab;

use crate::{
    counters::{Counters, Period, Saturation, Second},
    messages::{Message, WriterInvocation},
    parameters::{MS, Parameters, Rate, SECOND, micros},
    records::{Lane, Record, StreamInvocation},
    table::Table,
    zipf::{Zipf, hash},
};

/// Interval between two polls of a shard.
pub(crate) const POLL: u64 = 250 * MS;
/// Pollers of the queue, each of which receives four times a second.
const QUEUE_POLLERS: u64 = 5;
/// Delay before the first retry of a request, of which a random part is waited; it doubles up to a second.
const BACKOFF: u64 = 100 * MS;
/// Concurrent invocations that a function has at the start, and gets every ten seconds.
const SCALE_UP: u64 = 1_000;
/// Tokens of an SDK client for its retries, and the cost of one.
pub(crate) const RETRY_TOKENS: u32 = 500;
/// Parts of a run whose lag is reported separately.
pub(crate) const PERIODS: u64 = 10;

/// Salts of the hashes of an entity.
const PARTITION: u64 = 1;
const HISTORY_PARTITION: u64 = 2;
const LANE: u64 = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Event {
    Arrival,
    /// A poller of the queue receives.
    Receive,
    /// Failed messages become visible.
    Visible {
        messages: usize,
    },
    WriterSend {
        invocation: usize,
        lane: usize,
    },
    WriterRequest {
        invocation: usize,
        lane: usize,
    },
    WriterDone {
        invocation: usize,
    },
    Poll {
        shard: usize,
    },
    /// The batching window of a lane ends.
    Window {
        lane: usize,
        opened: u64,
    },
    LaneRetry {
        lane: usize,
    },
    StreamSend {
        invocation: usize,
        request: usize,
    },
    StreamRequest {
        invocation: usize,
        request: usize,
    },
    StreamDone {
        invocation: usize,
    },
    /// The end of a second.
    Second,
}

/// One of the functions: its running invocations, and the retry tokens of its idle execution environments.
#[derive(Default)]
pub(crate) struct Function {
    pub(crate) running: u32,
    pub(crate) idle: Vec<u32>,
}

pub(crate) struct World {
    pub(crate) p: Parameters,
    pub(crate) now: u64,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    scheduled: u64,
    random: fastrand::Rng,
    zipf: Zipf,
    /// Recent requests of each latest item above the window.
    pub(crate) above: Vec<u8>,
    pub(crate) latest: Table,
    /// The history table, `None` if it is the same.
    history: Option<Table>,

    pub(crate) queue: VecDeque<Message>,
    pub(crate) in_flight: usize,
    pub(crate) invisible: Slab<Vec<Message>>,
    pub(crate) writer: Function,
    pub(crate) writers: Slab<WriterInvocation>,

    pub(crate) shards: Vec<VecDeque<Record>>,
    pub(crate) lanes: Vec<Lane>,
    pub(crate) stream: Function,
    pub(crate) streams: Slab<StreamInvocation>,

    pub(crate) counters: Counters,
    pub(crate) second: Second,
    pub(crate) saturation: Saturation,
    pub(crate) periods: Vec<Period>,
    /// Messages in the queue and versions that are not stored, at the end of each second.
    pub(crate) backlogs: Vec<(u64, u64)>,
    /// Versions of the whole run that are not stored.
    pub(crate) missing: u64,
}

impl World {
    pub(crate) fn new(p: &Parameters) -> Self {
        let mut random = fastrand::Rng::with_seed(p.seed);
        let table = || {
            Table::new(
                p.partitions,
                p.table_write_units,
                p.partition_write_units,
                p.burst_seconds,
            )
        };
        let lanes = p.partitions as usize * p.parallelization_factor as usize;
        let mut world = Self {
            now: 0,
            events: BinaryHeap::new(),
            scheduled: 0,
            zipf: Zipf::new(p.entities, p.zipf),
            above: (0..p.entities)
                .map(|_| random.u8(0..=crate::parameters::SLACK))
                .collect(),
            latest: table(),
            history: p.own_history.then(table),
            queue: VecDeque::new(),
            in_flight: 0,
            invisible: Slab::new(),
            writer: Function::default(),
            writers: Slab::new(),
            shards: (0..p.partitions).map(|_| VecDeque::new()).collect(),
            lanes: (0..lanes).map(|_| Lane::default()).collect(),
            stream: Function::default(),
            streams: Slab::new(),
            counters: Counters::default(),
            second: Second::default(),
            saturation: Saturation::default(),
            periods: (0..PERIODS).map(|_| Period::default()).collect(),
            backlogs: Vec::new(),
            missing: 0,
            random,
            p: p.clone(),
        };
        world.begin();
        world
    }

    /// Schedules the first event of each kind. The polls of the shards are distributed evenly over the interval.
    fn begin(&mut self) {
        self.at(0, Event::Arrival);
        self.at(0, Event::Receive);
        self.at(SECOND, Event::Second);
        for shard in 0..self.shards.len() {
            let phase = self.random.u64(0..POLL);
            self.at(phase, Event::Poll { shard });
        }
    }

    /// Processes all events until the end of the run.
    pub(crate) fn run(&mut self) {
        while let Some(Reverse((time, _, event))) = self.events.pop() {
            if time > self.p.end() {
                return;
            }
            self.now = time;
            self.process(event);
        }
    }

    fn process(&mut self, event: Event) {
        match event {
            Event::Arrival => self.arrive(),
            Event::Receive => {
                self.at(self.now + POLL / QUEUE_POLLERS, Event::Receive);
                self.receive_full_batches();
                self.receive_rest();
            }
            Event::Visible { messages } => self.become_visible(messages),
            Event::WriterSend { invocation, lane } => self.writer_sends(invocation, lane),
            Event::WriterRequest { invocation, lane } => self.writer_requests(invocation, lane),
            Event::WriterDone { invocation } => self.writer_ends(invocation),
            Event::Poll { shard } => self.poll(shard),
            Event::Window { lane, opened } => self.window_ends(lane, opened),
            Event::LaneRetry { lane } => self.attempt(lane),
            Event::StreamSend { invocation, request } => self.stream_sends(invocation, request),
            Event::StreamRequest { invocation, request } => self.stream_requests(invocation, request),
            Event::StreamDone { invocation } => self.stream_ends(invocation),
            Event::Second => self.end_second(),
        }
    }

    pub(crate) fn at(&mut self, time: u64, event: Event) {
        self.scheduled += 1;
        self.events.push(Reverse((time, self.scheduled, event)));
    }

    /// Returns the rate of updates at this time.
    #[allow(clippy::cast_precision_loss, reason = "times are below 2^52 µs")]
    pub(crate) fn rate_at(&self, time: u64) -> f64 {
        match self.p.rate {
            Rate::Steady => self.p.updates_per_second,
            Rate::Ramp => self.p.updates_per_second * (time as f64 / self.p.end() as f64).max(0.01),
        }
    }

    fn arrive(&mut self) {
        let message = Message::new(self.zipf.draw(&mut self.random));
        self.queue.push_back(message);
        self.counters.sent += 1;
        let wait = -(1.0 - self.random.f64()).ln() / self.rate_at(self.now) * 1_000.0;
        self.at(self.now + micros(wait), Event::Arrival);
        self.receive_full_batches();
    }

    /// Returns half of the duration of a request: the time to or from DynamoDB.
    pub(crate) fn half_latency(&self) -> u64 {
        micros(self.p.latency_ms / 2.0)
    }

    /// Draws the delay before another attempt.
    pub(crate) fn backoff(&mut self, failures: u32) -> u64 {
        let bound = (BACKOFF << failures.saturating_sub(1).min(16)).min(SECOND);
        self.random.u64(0..=bound)
    }

    pub(crate) fn partition(&self, entity: u32) -> usize {
        reduce(hash(entity, PARTITION), self.shards.len())
    }

    /// Returns the lane of an entity, among those of all shards.
    pub(crate) fn lane(&self, entity: u32) -> usize {
        let lanes = self.p.parallelization_factor as usize;
        self.partition(entity) * lanes + reduce(hash(entity, LANE), lanes)
    }

    /// Consumes write units of the latest item, and returns `false` if the request is throttled.
    pub(crate) fn write_latest(&mut self, entity: u32, units: f64) -> bool {
        let partition = self.partition(entity);
        let written = self.latest.write(self.now, partition, units);
        self.count_request(written)
    }

    /// Consumes write units of a version item, and returns `false` if the request is throttled.
    pub(crate) fn write_version(&mut self, entity: u32, units: f64) -> bool {
        let partitions = self.shards.len();
        let written = if let Some(history) = &mut self.history {
            history.write(self.now, reduce(hash(entity, HISTORY_PARTITION), partitions), units)
        } else {
            let partition = self.partition(entity);
            self.latest.write(self.now, partition, units)
        };
        self.count_request(written)
    }

    fn count_request(&mut self, written: Result<(), crate::table::Throttle>) -> bool {
        self.second.requests += 1;
        if let Err(throttle) = written {
            self.counters.throttled.add(throttle);
            self.second.throttled.add(throttle);
        }
        written.is_ok()
    }

    /// Returns the write units of the history table and of its hottest partition, 0 without one.
    pub(crate) fn history_consumed(&self) -> (f64, f64) {
        self.history.as_ref().map_or((0.0, 0.0), Table::consumed)
    }

    /// Starts counting after the warm-up.
    pub(crate) fn reset(&mut self) {
        self.counters = Counters::default();
        self.latest.reset();
        if let Some(history) = &mut self.history {
            history.reset();
        }
    }

    /// Returns `true` if the account and the function can have another invocation.
    pub(crate) fn can_invoke(&mut self, running: u32) -> bool {
        let scaled = SCALE_UP + SCALE_UP * (self.now / (10 * SECOND));
        let all = self.writer.running + self.stream.running;
        let can = all < self.p.account_concurrency && u64::from(running) < scaled;
        match can {
            true => self.second.invoked += 1,
            false => self.second.not_invoked += 1,
        }
        can
    }
}

/// Maps a hash to an index below `length`.
#[allow(clippy::cast_possible_truncation, reason = "the remainder is below a length")]
fn reduce(hash: u64, length: usize) -> usize {
    (hash % length as u64) as usize
}
