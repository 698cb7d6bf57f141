//! Schedules: the settings, updates, operator actions and faults of one run, generated from a seed.
//!
//! A schedule is serialized to JSON, so that a run that violates a guarantee can be reproduced with `--replay`. Names in that
//! JSON do not change.

use fastrand::Rng;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub(crate) const TABLE: &str = "Table";
/// Prefix of the partition keys of malformed latest items.
pub(crate) const MALFORMED: &str = "malformed";
/// Number of writer processes.
const WRITERS: usize = 4;

/// The input of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Schedule {
    pub(crate) seed: u64,
    pub(crate) settings: Settings,
    /// Updates that upstream delivers, each with a unique request id.
    pub(crate) updates: Vec<Update>,
    pub(crate) steps: Vec<Step>,
    pub(crate) faults: Vec<Fault>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Settings {
    /// `stream`, `inline` or `transaction`
    pub(crate) write_mode: String,
    /// Window of `recent`, `None` for `ledger`.
    pub(crate) window: Option<u8>,
    pub(crate) by_time: bool,
    pub(crate) skip_unchanged: bool,
    pub(crate) digits: u8,
    pub(crate) batch_size: usize,
    pub(crate) batching_window: u64,
    pub(crate) parallelization_factor: usize,
    pub(crate) bisect: bool,
    pub(crate) maximum_retry_attempts: u32,
    /// In seconds.
    pub(crate) maximum_record_age: Option<u64>,
    /// Difference of each writer's clock from virtual time, in milliseconds.
    pub(crate) clock_offsets: Vec<i64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Update {
    pub(crate) id: String,
    pub(crate) entity: String,
    /// Members other than `ID`, `RequestId` and `RequestSentAt`.
    pub(crate) members: Value,
    pub(crate) origin: Origin,
}

/// Source of an update's request id, which every delivery of the update repeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Origin {
    /// A client that sends a `RequestId`.
    Client,
    /// A client that sends a `RequestId` and a `RequestSentAt`.
    TimedClient,
    /// An EventBridge event. Several queues can deliver it.
    Event,
    /// A queue message.
    Message,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Step {
    /// Milliseconds from the start.
    pub(crate) at: u64,
    /// Sender. The steps of one source run one after the other.
    pub(crate) source: u8,
    pub(crate) kind: StepKind,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum StepKind {
    /// A direct invocation, retried until there is a response.
    Direct { update: usize },
    /// An EventBridge event.
    EventBridge { update: usize },
    /// An SQS batch. Failed messages are delivered again after the visibility timeout.
    Sqs { updates: Vec<usize> },
    /// Another program increments `Latest`, and changes no other attribute of this project.
    OtherProgram { entity: String, value: usize },
    /// An operator deletes v0, and creates it again or leaves that to the next update.
    #[serde(rename = "DeleteHead")]
    DeleteLatest { entity: String, create: bool },
    /// An operator writes a version item, `ahead` of the latest version.
    WriteVersion { entity: String, ahead: u64 },
    /// An operator writes a v0 that is not a valid version.
    #[serde(rename = "MalformedHead")]
    MalformedLatest { number: usize },
    /// The mapping is stopped and restarted.
    StopMapping { millis: u64 },
    /// The on-failure destination is unavailable.
    DestinationDown { millis: u64 },
}

/// A fault of the `nth` request or invocation at a point, and of the following ones if `times` > 1.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Fault {
    pub(crate) on: Point,
    pub(crate) nth: u32,
    pub(crate) times: u32,
    pub(crate) kind: FaultKind,
}

/// A kind of request or invocation that can have a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum Point {
    /// The writer's `UpdateItem` or `TransactWriteItems`.
    Bump,
    /// The writer's `GetItem`, or stream-fn's `BatchGetItem`.
    Read,
    /// The writer's `PutItem`.
    InlinePut,
    /// stream-fn's `PutItem`, `BatchExecuteStatement`, or `TransactWriteItems` of a record in quarantine.
    Put,
    /// The requests of the mapping to the stream.
    Poll,
    /// An invocation of stream-fn.
    Invoke,
    /// `BatchGetItem` of a reader of the history.
    BatchGet,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum FaultKind {
    Throttled,
    ErrorBefore,
    ErrorAfter,
    #[serde(rename = "AnswerDropped")]
    ResponseDropped,
    TimeOut,
    Hang,
    TransactionConflict,
    /// The request is executed long after its sender has stopped waiting for it.
    Delayed,
    /// Every second statement of a request is throttled.
    StatementsThrottled,
    /// A whole request of statements is rejected.
    #[serde(rename = "Refused")]
    Rejected,
    Unprocessed,
    Panic,
    KilledBefore,
    KilledAfter,
    // Faults of a whole invocation.
    NotInvoked,
    FunctionTimeOut,
    Redelivered,
    RedeliveredInPart,
    RedeliveredOutOfOrder,
    #[serde(rename = "BadAnswer")]
    BadResponse,
}

impl FaultKind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Throttled => "throttled",
            Self::ErrorBefore => "error-before",
            Self::ErrorAfter => "error-after",
            Self::ResponseDropped => "answer-dropped",
            Self::TimeOut => "time-out",
            Self::Hang => "hang",
            Self::TransactionConflict => "transaction-conflict",
            Self::Delayed => "delayed",
            Self::StatementsThrottled => "statements-throttled",
            Self::Rejected => "request-refused",
            Self::Unprocessed => "unprocessed",
            Self::Panic => "panic",
            Self::KilledBefore => "killed-before",
            Self::KilledAfter => "killed-after",
            Self::NotInvoked => "not-invoked",
            Self::FunctionTimeOut => "function-time-out",
            Self::Redelivered => "redelivered",
            Self::RedeliveredInPart => "redelivered-in-part",
            Self::RedeliveredOutOfOrder => "redelivered-out-of-order",
            Self::BadResponse => "bad-answer",
        }
    }
}

const REQUESTS: [FaultKind; 9] = [
    FaultKind::Throttled,
    FaultKind::ErrorBefore,
    FaultKind::ErrorAfter,
    FaultKind::ResponseDropped,
    FaultKind::TimeOut,
    FaultKind::Hang,
    FaultKind::Panic,
    FaultKind::KilledBefore,
    FaultKind::KilledAfter,
];
const INVOCATIONS: [FaultKind; 6] = [
    FaultKind::NotInvoked,
    FaultKind::FunctionTimeOut,
    FaultKind::Redelivered,
    FaultKind::RedeliveredInPart,
    FaultKind::RedeliveredOutOfOrder,
    FaultKind::BadResponse,
];
const POLLS: [FaultKind; 4] = [
    FaultKind::Throttled,
    FaultKind::ErrorBefore,
    FaultKind::ResponseDropped,
    FaultKind::TimeOut,
];

/// Size of a schedule.
struct Scale {
    entities: usize,
    updates: usize,
    /// `true` if most updates belong to the first entity.
    is_hot: bool,
}

impl Scale {
    /// One schedule in fifteen has a hot entity. Few of these are large, because they take most of the time.
    fn draw(rng: &mut Rng) -> Self {
        let is_hot = rng.u8(..15) == 0;
        let updates = if is_hot {
            pick(rng, &[40..60, 40..60, 40..60, 60..100, 60..100, 100..500])
        } else {
            3..25
        };
        Self {
            entities: rng.usize(1..=3),
            updates: rng.usize(updates),
            is_hot,
        }
    }

    fn entity(&self, rng: &mut Rng) -> String {
        let number = match self.is_hot && rng.u8(..6) > 0 {
            true => 0,
            false => rng.usize(..self.entities),
        };
        format!("e{number}")
    }
}

impl Schedule {
    pub(crate) fn draw(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let settings = Settings::draw(&mut rng);
        let scale = Scale::draw(&mut rng);
        let updates: Vec<_> = (0..scale.updates)
            .map(|number| Update::draw(&mut rng, number, &scale, &settings))
            .collect();
        let steps = steps(&mut rng, &updates, &scale);
        let mut faults: Vec<_> = (0..rng.usize(0..=6)).map(|_| Fault::draw(&mut rng, &scale)).collect();
        if scale.is_hot {
            // Other updates follow while the writer waits for a response.
            faults.push(Fault {
                on: Point::Bump,
                nth: rng.u32(..40),
                times: rng.u32(1..=3),
                kind: pick(&mut rng, &[FaultKind::TimeOut, FaultKind::Delayed]),
            });
        }
        Self {
            seed,
            settings,
            updates,
            steps,
            faults,
        }
    }
}

impl Settings {
    fn draw(rng: &mut Rng) -> Self {
        let window = pick(
            rng,
            &[Some(1), Some(2), Some(3), Some(4), Some(10), Some(16), None, None],
        );
        let max_offset = pick(rng, &[0, 5000, 5000]);
        Self {
            clock_offsets: (0..WRITERS).map(|_| rng.i64(-max_offset..=max_offset)).collect(),
            write_mode: pick(rng, &["stream", "stream", "inline", "transaction"]).to_owned(),
            window,
            by_time: rng.u8(..4) == 0,
            skip_unchanged: rng.u8(..6) == 0,
            digits: pick(rng, &[1, 1, 2]),
            batch_size: pick(rng, &[1, 2, 5, 100]),
            batching_window: pick(rng, &[0, 0, 1]),
            parallelization_factor: pick(rng, &[1, 2, 3]),
            bisect: rng.u8(..3) > 0,
            maximum_retry_attempts: rng.u32(0..=4),
            maximum_record_age: pick(rng, &[None, None, Some(60)]),
        }
    }
}

impl Update {
    fn draw(rng: &mut Rng, number: usize, scale: &Scale, settings: &Settings) -> Self {
        let mut members = json!({});
        for name in ["A", "B", "C"] {
            match rng.u8(..6) {
                0 => members[name] = Value::Null,
                1 | 2 => members[name] = json!(rng.u8(..4)),
                3 => members[name] = json!(format!("text-{}", rng.u8(..4))),
                _ => {}
            }
        }
        if rng.u8(..8) == 0 {
            members["Deleted"] = json!(true);
        }
        if rng.u8(..10) == 0 {
            members["ExpectedVersion"] = json!(rng.u8(..4));
        }
        if settings.by_time {
            let earliest = if scale.is_hot { 100 * number } else { 0 };
            members["Timestamp"] = json!(earliest + rng.usize(1..1000));
        } else if rng.u8(..4) == 0 {
            members["Time"] = json!(format!("2026-01-01T00:00:0{}Z", rng.u8(..4)));
        }
        for name in ["Actor", "Reason"] {
            if rng.u8(..3) == 0 {
                members[name] = json!(format!("text-{}", rng.u8(..4)));
            }
        }
        Self {
            id: format!("r{number}"),
            entity: scale.entity(rng),
            members,
            origin: pick(
                rng,
                &[Origin::Client, Origin::TimedClient, Origin::Event, Origin::Message],
            ),
        }
    }
}

impl Fault {
    fn draw(rng: &mut Rng, scale: &Scale) -> Self {
        let on = pick(
            rng,
            &[
                Point::Bump,
                Point::Bump,
                Point::Put,
                Point::Put,
                Point::Invoke,
                Point::Invoke,
                Point::Read,
                Point::InlinePut,
                Point::Poll,
                Point::BatchGet,
            ],
        );
        let kind = match on {
            Point::Invoke => pick(rng, &INVOCATIONS),
            Point::Poll => pick(rng, &POLLS),
            Point::BatchGet => pick(rng, &[FaultKind::Unprocessed, FaultKind::Throttled]),
            Point::Bump if rng.u8(..3) == 0 => pick(rng, &[FaultKind::TransactionConflict, FaultKind::Delayed]),
            Point::Put if rng.u8(..4) == 0 => pick(rng, &[FaultKind::StatementsThrottled, FaultKind::Rejected]),
            _ => pick(rng, &REQUESTS),
        };
        Self {
            on,
            nth: match on {
                Point::BatchGet => rng.u32(..2),
                _ if scale.is_hot => rng.u32(..200),
                _ => rng.u32(..30),
            },
            times: pick(rng, &[1, 1, 1, 2, 3, 8]),
            kind,
        }
    }
}

/// Returns a delivery of an update: by the source of its request id, or in a batch of messages.
fn delivery(rng: &mut Rng, updates: &[Update], update: usize, scale: &Scale) -> StepKind {
    let is_batch = rng.u8(..4) == 0;
    match updates[update].origin {
        Origin::Client | Origin::TimedClient if !is_batch => StepKind::Direct { update },
        Origin::Event if !is_batch => StepKind::EventBridge { update },
        _ => {
            let others = if scale.is_hot { 0..=1 } else { 1..=4 };
            let others = (0..rng.usize(others)).map(|_| rng.usize(..updates.len()));
            StepKind::Sqs {
                updates: others.chain([update]).collect(),
            }
        }
    }
}

fn steps(rng: &mut Rng, updates: &[Update], scale: &Scale) -> Vec<Step> {
    /// Milliseconds during which most steps start.
    const SPAN: u64 = 3000;
    const MINUTE: u64 = 60_000;
    let mut steps = Vec::new();
    let mut add = |rng: &mut Rng, from: u64, kind| {
        steps.push(Step {
            at: from + rng.u64(..SPAN),
            source: rng.u8(..4),
            kind,
        });
    };
    for index in 0..updates.len() {
        // The first delivery and its duplicates, in any order.
        let deliveries = 1 + pick(rng, &[0, 0, 0, 1, 2]);
        for _ in 0..deliveries {
            let kind = delivery(rng, updates, index, scale);
            add(rng, 0, kind);
        }
    }
    // Late duplicates, some of them among other updates.
    for _ in 0..rng.usize(0..=4) {
        let index = rng.usize(..updates.len());
        let from = pick(rng, &[SPAN, SPAN, 3 * MINUTE, 10 * MINUTE, 12 * 60 * MINUTE]);
        let kind = delivery(rng, updates, index, scale);
        add(rng, from, kind);
    }
    if rng.u8(..6) == 0 {
        let kind = StepKind::DeleteLatest {
            entity: scale.entity(rng),
            create: rng.bool(),
        };
        add(rng, 0, kind);
    }
    if rng.u8(..6) == 0 {
        let kind = StepKind::WriteVersion {
            entity: scale.entity(rng),
            ahead: rng.u64(1..=3),
        };
        add(rng, 0, kind);
    }
    if rng.u8(..6) == 0 {
        for value in 0..rng.usize(1..=6) {
            let entity = scale.entity(rng);
            add(rng, 0, StepKind::OtherProgram { entity, value });
        }
    }
    for number in 0..pick(rng, &[0, 0, 0, 1, 2]) {
        add(rng, 0, StepKind::MalformedLatest { number });
    }
    if scale.is_hot || rng.u8(..5) == 0 {
        // While history is behind, each update of a hot entity that is delivered again reads many versions.
        let longest = if scale.is_hot { 4000 } else { 90_000 };
        let millis = pick(rng, &[500, 2000, longest]);
        add(rng, 0, StepKind::StopMapping { millis });
    }
    if rng.u8(..5) == 0 {
        let millis = rng.u64(500..5000);
        add(rng, 0, StepKind::DestinationDown { millis });
    }
    steps.sort_by_key(|step| step.at);
    steps
}

fn pick<T: Clone>(rng: &mut Rng, choices: &[T]) -> T {
    choices[rng.usize(..choices.len())].clone()
}
