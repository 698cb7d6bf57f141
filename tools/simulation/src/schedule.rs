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
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Update {
    pub(crate) id: String,
    pub(crate) entity: String,
    /// Members other than `ID` and `RequestId`.
    pub(crate) members: Value,
}

impl Update {
    pub(crate) fn json(&self) -> Value {
        let mut json = self.members.clone();
        json["ID"] = json!(self.entity);
        json["RequestId"] = json!(self.id);
        json
    }
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
    /// An SQS batch. Failed messages are delivered again.
    Sqs { updates: Vec<usize> },
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
    /// stream-fn's `PutItem` or `BatchExecuteStatement`.
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

impl Schedule {
    pub(crate) fn draw(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let settings = Settings::draw(&mut rng);
        let entities = rng.usize(1..=3);
        let updates: Vec<_> = (0..rng.usize(3..=24))
            .map(|number| Update::draw(&mut rng, number, entities, &settings))
            .collect();
        let steps = steps(&mut rng, &updates, entities);
        let faults = (0..rng.usize(0..=6)).map(|_| Fault::draw(&mut rng)).collect();
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
        let window = pick(rng, &[Some(1), Some(2), Some(3), Some(16), None, None]);
        Self {
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
    fn draw(rng: &mut Rng, number: usize, entities: usize, settings: &Settings) -> Self {
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
            members["Timestamp"] = json!(rng.u32(1..1000));
        }
        Self {
            id: format!("r{number}"),
            entity: format!("e{}", rng.usize(..entities)),
            members,
        }
    }
}

impl Fault {
    fn draw(rng: &mut Rng) -> Self {
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
            Point::Bump if rng.u8(..5) == 0 => FaultKind::TransactionConflict,
            Point::Put if rng.u8(..4) == 0 => pick(rng, &[FaultKind::StatementsThrottled, FaultKind::Rejected]),
            _ => pick(rng, &REQUESTS),
        };
        Self {
            on,
            nth: rng.u32(0..if on == Point::BatchGet { 2 } else { 30 }),
            times: pick(rng, &[1, 1, 1, 2, 3, 8]),
            kind,
        }
    }
}

fn steps(rng: &mut Rng, updates: &[Update], entities: usize) -> Vec<Step> {
    /// Milliseconds during which steps start.
    const SPAN: u64 = 3000;
    let mut steps = Vec::new();
    let mut add = |rng: &mut Rng, kind| {
        steps.push(Step {
            at: rng.u64(..SPAN),
            source: rng.u8(..4),
            kind,
        });
    };
    for index in 0..updates.len() {
        // The first delivery and its duplicates, in any order.
        let deliveries = 1 + pick(rng, &[0, 0, 0, 1, 2]);
        for _ in 0..deliveries {
            let kind = match rng.u8(..4) {
                0 => StepKind::EventBridge { update: index },
                1 => StepKind::Sqs {
                    updates: (0..rng.usize(1..=4))
                        .map(|_| rng.usize(..updates.len()))
                        .chain([index])
                        .collect(),
                },
                _ => StepKind::Direct { update: index },
            };
            add(rng, kind);
        }
    }
    let entity = |rng: &mut Rng| format!("e{}", rng.usize(..entities));
    if rng.u8(..6) == 0 {
        let kind = StepKind::DeleteLatest {
            entity: entity(rng),
            create: rng.bool(),
        };
        add(rng, kind);
    }
    if rng.u8(..6) == 0 {
        let kind = StepKind::WriteVersion {
            entity: entity(rng),
            ahead: rng.u64(1..=3),
        };
        add(rng, kind);
    }
    for number in 0..pick(rng, &[0, 0, 0, 1, 2]) {
        add(rng, StepKind::MalformedLatest { number });
    }
    if rng.u8(..5) == 0 {
        let millis = pick(rng, &[500, 2000, 90_000]);
        add(rng, StepKind::StopMapping { millis });
    }
    if rng.u8(..5) == 0 {
        let millis = rng.u64(500..5000);
        add(rng, StepKind::DestinationDown { millis });
    }
    steps.sort_by_key(|step| step.at);
    steps
}

fn pick<T: Copy>(rng: &mut Rng, choices: &[T]) -> T {
    choices[rng.usize(..choices.len())]
}
