//! Situations for which a guard exists, and which random steps seldom create: few updates at chosen times.

#![allow(
    clippy::wildcard_imports,
    clippy::enum_glob_use,
    reason = "the words of every situation"
)]

mod deletions;
mod functions;
mod layouts;
mod operators;
mod writers;

use std::ops::Range;

use fastrand::Rng;
use serde_json::{Value, json};

use super::{DAY, HOUR, MAX_OFFSET, MINUTE, SECOND, jumps, pick};
use crate::{
    plan::Scope,
    queue::VISIBILITY_TIMEOUT_MILLIS,
    schedule::{
        Command, Content, Fault, FaultKind, Jump, Origin, Point, Schedule, Settings, Step,
        StepKind::{self, *},
        Update,
    },
};

/// Fills a schedule that has only settings, and can change these.
type Situation = fn(&mut Rng, &mut Schedule);

const SITUATIONS: &[&[Situation]] = &[
    functions::SITUATIONS,
    deletions::SITUATIONS,
    operators::SITUATIONS,
    layouts::SITUATIONS,
    operators::PRUNED,
    writers::SITUATIONS,
];
/// Situations of deployments, operators and other programs: one situation in this number.
const FURTHER: &[&[Situation]] = &[layouts::FURTHER, deletions::FURTHER, writers::FURTHER];
const OF_FURTHER: u8 = 3;

/// Returns a schedule of a situation, which `kind` chooses.
pub(super) fn draw(rng: &mut Rng, kind: &mut Rng, seed: u64, settings: Settings) -> Schedule {
    let situation = pick(kind, &SITUATIONS.concat());
    let situation = match kind.u8(..OF_FURTHER) {
        0 => pick(kind, &FURTHER.concat()),
        _ => situation,
    };
    let mut schedule = Schedule {
        seed,
        settings,
        ..Schedule::default()
    };
    situation(rng, &mut schedule);
    schedule.steps.sort_by_key(|step| step.at);
    schedule
}

/// The entity of most situations.
fn e0() -> String {
    "e0".to_owned()
}

impl From<Command> for StepKind {
    fn from(command: Command) -> Self {
        Self::Command(command)
    }
}

impl Schedule {
    /// Adds an update of an entity, and returns its index.
    pub(crate) fn update(&mut self, entity: &str, origin: Origin, mut members: Value) -> usize {
        let number = self.updates.len();
        if self.settings.by_time && members.get("Timestamp").is_none() {
            members["Timestamp"] = json!(1000 * number);
        }
        if !self.settings.skip_unchanged {
            members["Mark"] = json!(format!("r{number}"));
        }
        self.updates.push(Update::new(number, entity, members, origin));
        number
    }

    /// Adds a step of a source, at a time in milliseconds.
    pub(crate) fn step(&mut self, at: u64, source: u8, kind: impl Into<StepKind>) {
        let kind = kind.into();
        self.steps.push(Step { at, source, kind });
    }

    /// Adds an update of an entity, and a direct delivery of it.
    pub(super) fn direct(&mut self, at: u64, source: u8, entity: &str, origin: Origin, members: Value) -> usize {
        let update = self.update(entity, origin, members);
        self.step(at, source, Direct { update });
        update
    }

    /// Adds an update of `e0` by a client, and its delivery.
    fn client(&mut self, at: u64, source: u8, value: impl Into<Value>) {
        self.direct(at, source, "e0", Origin::Client, json!({"A": value.into()}));
    }

    /// Adds updates of `e0` by three clients in a period.
    fn clients(&mut self, rng: &mut Rng, period: Range<u64>, count: u64) {
        for number in 0..count {
            let at = period.start + number * (period.end - period.start) / count;
            self.client(at, rng.u8(..3), number);
        }
    }

    /// Adds updates of an entity, one after the other, and returns their indexes.
    fn some(&mut self, rng: &mut Rng, entity: &str, from: u64, count: Range<u64>) -> Vec<usize> {
        let mut added = Vec::new();
        for index in 0..rng.u64(count) {
            let origin = pick(rng, &[Origin::Client, Origin::TimedClient]);
            let members = json!({"A": self.updates.len()});
            added.push(self.direct(from + 50 * index, 0, entity, origin, members));
        }
        added
    }

    pub(crate) fn window(&mut self, at: u64, source: u8, scope: Scope, millis: u64) {
        self.step(at, source, Window { scope, millis });
    }

    pub(super) fn fault(&mut self, on: Point, nth: u32, times: u32, kind: FaultKind) {
        self.faults.push(Fault { on, nth, times, kind });
    }

    /// Lets the request of an operator with this number hang.
    fn hang(&mut self, nth: u32) {
        self.fault(Point::Operator, nth, 1, FaultKind::Hang);
    }
}

impl Settings {
    /// Chooses a mode in which an `UpdateItem` writes the latest item: its condition alone decides.
    fn write_by_update(&mut self, rng: &mut Rng, windows: &[u8]) {
        pick(rng, &["stream", "inline"]).clone_into(&mut self.write_mode);
        self.window = Some(pick(rng, windows));
    }

    /// Chooses settings as in template.yaml, so that no record is discarded.
    fn lose_nothing(&mut self) {
        "stream".clone_into(&mut self.write_mode);
        (self.skip_unchanged, self.startup) = (false, 0);
        (self.maximum_retry_attempts, self.maximum_record_age) = (None, None);
    }
}
