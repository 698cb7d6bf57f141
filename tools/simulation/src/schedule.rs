//! A schedule: what upstream sends, what people do by hand, and what goes wrong. All of it is drawn from one seed.

use fastrand::Rng;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Everything that happens in one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Schedule {
    pub(crate) seed: u64,
    pub(crate) settings: Settings,
    /// The updates that upstream has to deliver, each under an id of its own.
    pub(crate) updates: Vec<Update>,
    pub(crate) steps: Vec<Step>,
    pub(crate) faults: Vec<Fault>,
}

/// The settings of the functions and of the mapping.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Settings {
    /// `stream`, `inline` or `transaction`
    pub(crate) write_mode: String,
    /// The window of `recent`, or `None` for `ledger`.
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

/// An update as upstream has it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Update {
    pub(crate) id: String,
    pub(crate) entity: String,
    /// All other members.
    pub(crate) members: Value,
}

impl Update {
    /// The update as it is sent.
    pub(crate) fn json(&self) -> Value {
        let mut json = self.members.clone();
        json["ID"] = json!(self.entity);
        json["RequestId"] = json!(self.id);
        json
    }
}

/// Something that somebody does at a time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Step {
    /// Milliseconds from the start.
    pub(crate) at: u64,
    /// Who does it: steps of one source come one after the other.
    pub(crate) source: u8,
    pub(crate) kind: StepKind,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum StepKind {
    /// A direct invocation, tried again until it is answered.
    Direct { update: usize },
    /// An event of EventBridge.
    EventBridge { update: usize },
    /// An SQS batch; what failed comes again.
    Sqs { updates: Vec<usize> },
    /// Somebody deletes v0, and creates it again or leaves that to the next update.
    DeleteHead { entity: String, create: bool },
    /// Somebody writes a version that is not there yet, so far ahead of the latest.
    WriteVersion { entity: String, ahead: u64 },
    /// Somebody writes a v0 that makes no version.
    MalformedHead { number: usize },
    /// The mapping is stopped, and started again.
    StopMapping { millis: u64 },
    /// The failure destination takes nothing.
    DestinationDown { millis: u64 },
}

/// Something that goes wrong: the `nth` request or invocation of its kind, and those behind it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Fault {
    pub(crate) on: Point,
    pub(crate) nth: u32,
    pub(crate) times: u32,
    pub(crate) kind: FaultKind,
}

/// Where something can go wrong.
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
    /// The mapping's reads of the stream.
    Poll,
    /// An invocation of stream-fn.
    Invoke,
    /// `BatchGetItem`, by whoever reads the history.
    BatchGet,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum FaultKind {
    Throttled,
    ErrorBefore,
    ErrorAfter,
    AnswerDropped,
    TimeOut,
    Hang,
    TransactionConflict,
    /// Every other statement of a request is throttled.
    StatementsThrottled,
    /// A whole request of statements is refused, for whatever reason.
    Refused,
    Unprocessed,
    /// The function that sent the request panics.
    Panic,
    KilledBefore,
    KilledAfter,
    // Of a whole invocation.
    NotInvoked,
    FunctionTimeOut,
    Redelivered,
    RedeliveredInPart,
    RedeliveredOutOfOrder,
    BadAnswer,
}

const REQUESTS: [FaultKind; 9] = [
    FaultKind::Throttled,
    FaultKind::ErrorBefore,
    FaultKind::ErrorAfter,
    FaultKind::AnswerDropped,
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
    FaultKind::BadAnswer,
];
const POLLS: [FaultKind; 4] = [
    FaultKind::Throttled,
    FaultKind::ErrorBefore,
    FaultKind::AnswerDropped,
    FaultKind::TimeOut,
];

impl Schedule {
    /// Draws a schedule.
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
            Point::Put if rng.u8(..4) == 0 => pick(rng, &[FaultKind::StatementsThrottled, FaultKind::Refused]),
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
    /// How long upstream has new updates.
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
        // The first delivery, and duplicates of it, in any order.
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
        let kind = StepKind::DeleteHead {
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
        add(rng, StepKind::MalformedHead { number });
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
