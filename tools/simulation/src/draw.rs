//! Generates schedules.

use fastrand::Rng;
use serde_json::{Value, json};

use crate::{
    schedule::{Command, Fault, FaultKind, Origin, Point, Schedule, Settings, Step, StepKind, Update},
    windows::Scope,
};

/// Number of writer processes.
const WRITERS: usize = 4;
/// Milliseconds during which most steps start.
const SPAN: u64 = 3000;
const MINUTE: u64 = 60_000;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;
/// Characters of an attribute with which an item is close to the limit of 400 KB, or exceeds it.
const LARGE: [usize; 3] = [395_000, 408_000, 409_600];

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
/// Faults of a request of several statements.
const STATEMENTS: [FaultKind; 3] = [
    FaultKind::StatementsThrottled,
    FaultKind::StatementsApplied,
    FaultKind::Rejected,
];
const WRITER_INVOCATIONS: [FaultKind; 3] = [
    FaultKind::NotInvoked,
    FaultKind::FunctionTimeOut,
    FaultKind::Redelivered,
];
const POLLS: [FaultKind; 3] = [FaultKind::Throttled, FaultKind::ErrorBefore, FaultKind::IteratorExpired];

/// Size of a schedule.
struct Scale {
    entities: usize,
    updates: usize,
    /// `true` if most updates belong to the first entity.
    is_hot: bool,
}

impl Scale {
    /// One schedule in thirty has a hot entity. Few of these are large, because they take most of the time.
    fn draw(rng: &mut Rng) -> Self {
        let is_hot = rng.u8(..30) == 0;
        let updates = if is_hot {
            pick(rng, &[30..60, 30..60, 30..60, 60..100, 60..100, 100..160])
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
        let mut updates: Vec<_> = (0..scale.updates)
            .map(|number| Update::draw(&mut rng, number, &scale, &settings))
            .collect();
        if rng.u8(..40) == 0 {
            updates.extend(large(&mut rng, updates.len(), &settings));
        }
        let steps = steps(&mut rng, &updates, &scale, &settings);
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
            maximum_retry_attempts: pick(rng, &[None, Some(0), Some(1), Some(2), Some(4)]),
            maximum_record_age: pick(rng, &[None, None, Some(60)]),
            startup: pick(rng, &[0, 0, 0, 51, 72]),
            shards: pick(rng, &[1, 1, 2, 3]),
            queue_batch_size: pick(rng, &[1, 3, 10]),
            tombstone_days: pick(rng, &[None, None, None, None, Some(1)]),
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
        if rng.u8(..16) == 0 {
            members["ExpectedVersion"] = json!(rng.u8(..4));
        }
        if settings.by_time {
            let earliest = if scale.is_hot { 100 * number } else { 0 };
            members["Timestamp"] = json!(earliest + rng.usize(1..1000));
        } else if rng.u8(..4) == 0 {
            members["Time"] = json!(format!("2026-01-01T00:00:0{}Z", rng.u8(..4)));
        }
        if !settings.skip_unchanged {
            // It shows which update created a version, whatever the writer says.
            members["Mark"] = json!(format!("r{number}"));
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
                &[
                    Origin::Client,
                    Origin::TimedClient,
                    Origin::Event,
                    Origin::Message,
                    Origin::Invocation,
                ],
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
                Point::InvokeWriter,
                Point::Operator,
                Point::Read,
                Point::InlinePut,
                Point::Poll,
                Point::BatchGet,
            ],
        );
        let kind = match on {
            Point::Invoke => pick(rng, &INVOCATIONS),
            Point::InvokeWriter => pick(rng, &WRITER_INVOCATIONS),
            Point::Poll => pick(rng, &POLLS),
            Point::BatchGet => pick(rng, &[FaultKind::Unprocessed, FaultKind::Throttled]),
            Point::Bump if rng.u8(..3) == 0 => pick(rng, &[FaultKind::TransactionConflict, FaultKind::Delayed]),
            Point::Put if rng.u8(..3) == 0 => pick(rng, &STATEMENTS),
            _ => pick(rng, &REQUESTS),
        };
        Self {
            on,
            nth: match on {
                Point::BatchGet => rng.u32(..2),
                Point::Put if STATEMENTS.contains(&kind) => rng.u32(..4),
                _ if scale.is_hot => rng.u32(..200),
                _ => rng.u32(..30),
            },
            times: match kind {
                // Only a part of the requests have statements.
                _ if STATEMENTS.contains(&kind) => 20,
                _ => pick(rng, &[1, 1, 1, 2, 3, 8]),
            },
            kind,
        }
    }
}

/// Returns an update of an entity of its own that is about as large as an item can be, and one that makes it small again.
fn large(rng: &mut Rng, number: usize, settings: &Settings) -> [Update; 2] {
    let size = pick(rng, &LARGE);
    let update = |number: usize, value: Value| {
        let mut members = json!({"Large": value});
        if settings.by_time {
            members["Timestamp"] = json!(1000 * number);
        }
        Update {
            id: format!("r{number}"),
            entity: "large".to_owned(),
            members,
            origin: Origin::TimedClient,
        }
    };
    [update(number, json!("x".repeat(size))), update(number + 1, Value::Null)]
}

/// Returns a delivery of an update: by the source of its request id, or in a batch of messages.
fn delivery(rng: &mut Rng, updates: &[Update], update: usize) -> StepKind {
    let is_batch = rng.u8(..4) == 0;
    match updates[update].origin {
        Origin::Client | Origin::TimedClient if !is_batch => StepKind::Direct { update },
        Origin::Invocation => StepKind::Asynchronous { update },
        Origin::Event if !is_batch => StepKind::Asynchronous { update },
        _ => {
            let others = (0..rng.usize(0..=1)).map(|_| rng.usize(..updates.len()));
            let others = others.filter(|other| updates[*other].origin != Origin::Invocation);
            StepKind::Sqs {
                updates: others.chain([update]).collect(),
            }
        }
    }
}

struct Steps<'r> {
    rng: &'r mut Rng,
    steps: Vec<Step>,
}

impl Steps<'_> {
    /// Adds a step in the span that begins at a time.
    fn add(&mut self, from: u64, kind: StepKind) {
        let at = from + self.rng.u64(..SPAN);
        let source = self.rng.u8(..4);
        self.steps.push(Step { at, source, kind });
    }

    fn one_in(&mut self, number: u8) -> bool {
        self.rng.u8(..number) == 0
    }
}

fn steps(rng: &mut Rng, updates: &[Update], scale: &Scale, settings: &Settings) -> Vec<Step> {
    let mut steps = Steps { rng, steps: Vec::new() };
    for index in 0..updates.len() {
        // The first delivery and its duplicates, in any order.
        let deliveries = 1 + pick(steps.rng, &[0, 0, 0, 1, 2]);
        for _ in 0..deliveries {
            let kind = delivery(steps.rng, updates, index);
            steps.add(0, kind);
        }
    }
    // Late duplicates, some of them among other updates.
    for _ in 0..steps.rng.usize(0..=3) {
        let index = steps.rng.usize(..updates.len());
        let from = pick(steps.rng, &[SPAN, SPAN, 3 * MINUTE, 10 * MINUTE, 12 * HOUR]);
        let kind = delivery(steps.rng, updates, index);
        steps.add(from, kind);
    }
    if steps.one_in(6) {
        let timed = |index: &usize| updates[*index].origin == Origin::TimedClient && updates[*index].entity != "large";
        let timed: Vec<_> = (0..updates.len()).filter(timed).collect();
        if !timed.is_empty() {
            let update = pick(steps.rng, &timed);
            steps.add(SPAN, StepKind::ReuseId { update });
        }
    }
    others(&mut steps, scale);
    failures(&mut steps, scale);
    time(&mut steps, updates, settings);
    commands(&mut steps, scale);
    steps.steps.sort_by_key(|step| step.at);
    steps.steps
}

/// Adds what other programs and operators do without a command.
fn others(steps: &mut Steps, scale: &Scale) {
    if steps.one_in(8) {
        let entity = scale.entity(steps.rng);
        let create = steps.rng.bool();
        steps.add(0, StepKind::DeleteLatest { entity, create });
    }
    if steps.one_in(8) {
        let entity = scale.entity(steps.rng);
        let ahead = steps.rng.u64(1..=3);
        steps.add(0, StepKind::WriteVersion { entity, ahead });
    }
    if steps.one_in(6) {
        for value in 0..steps.rng.usize(1..=6) {
            let entity = scale.entity(steps.rng);
            steps.add(0, StepKind::OtherProgram { entity, value });
        }
    }
    for number in 0..pick(steps.rng, &[0, 0, 0, 1, 2]) {
        steps.add(0, StepKind::MalformedLatest { number });
    }
}

/// Adds failures that last, and what happens to the stream.
fn failures(steps: &mut Steps, scale: &Scale) {
    for _ in 0..pick(steps.rng, &[0, 0, 1, 3]) {
        steps.add(0, StepKind::SplitShard);
    }
    if scale.is_hot || steps.one_in(5) {
        // While history is behind, each update of a hot entity that is delivered again reads many versions.
        let longest = if scale.is_hot { 4000 } else { 90_000 };
        let millis = pick(steps.rng, &[500, 2000, longest]);
        steps.add(0, StepKind::StopMapping { millis });
    }
    if steps.one_in(6) {
        let millis = steps.rng.u64(500..20_000);
        steps.add(0, StepKind::DenyDestination { millis });
        if steps.one_in(2) {
            // Records fail while the destination refuses their documents.
            let scope = Scope::StreamFunctionDenied;
            steps.add(0, StepKind::Window { scope, millis });
        }
    }
    if steps.one_in(4) {
        let scope = match steps.rng.u8(..6) {
            0 => Scope::WriterDenied,
            1 => Scope::StreamFunctionDenied,
            2 => Scope::StreamDenied,
            3 => Scope::Unresponsive,
            _ => Scope::Partition(scale.entity(steps.rng)),
        };
        let longest = if scope == Scope::Unresponsive {
            MINUTE
        } else {
            8 * MINUTE
        };
        let millis = pick(steps.rng, &[1000, 5000, longest]);
        steps.add(0, StepKind::Window { scope, millis });
    }
}

/// Adds what hours and days do: records are trimmed, items expire.
fn time(steps: &mut Steps, updates: &[Update], settings: &Settings) {
    if steps.one_in(12) && updates.len() < 30 {
        let millis = 25 * HOUR;
        steps.add(0, StepKind::StopMapping { millis });
        for _ in 0..3 {
            let index = steps.rng.usize(..updates.len());
            let kind = delivery(steps.rng, updates, index);
            steps.add(26 * HOUR, kind);
        }
    }
    if settings.tombstone_days.is_some() || settings.window.is_none() && steps.one_in(4) {
        let from = pick(steps.rng, &[2 * DAY, 2 * DAY, 30 * DAY]);
        steps.add(from, StepKind::Expire);
        for _ in 0..2 {
            let index = steps.rng.usize(..updates.len());
            if updates[index].origin == Origin::Client {
                let kind = delivery(steps.rng, updates, index);
                steps.add(from + SPAN, kind);
            }
        }
    }
}

fn commands(steps: &mut Steps, scale: &Scale) {
    if !steps.one_in(3) || scale.is_hot {
        return;
    }
    for number in 0..steps.rng.usize(1..=3) {
        let entity = scale.entity(steps.rng);
        let command = match steps.rng.u8(..5) {
            0 => Command::Prune {
                entity,
                keep: steps.rng.u64(1..=3),
            },
            1 => Command::Purge { entity },
            2 => Command::Repair,
            3 => Command::Redrive,
            _ => Command::Backfill { number },
        };
        let from = pick(steps.rng, &[0, 0, SPAN, MINUTE, 10 * MINUTE]);
        steps.add(from, StepKind::Command(command));
    }
}

fn pick<T: Clone>(rng: &mut Rng, choices: &[T]) -> T {
    choices[rng.usize(..choices.len())].clone()
}
