//! What a schedule is made of: periods, choices, updates with their deliveries, and faults.

use std::ops::Range;

use fastrand::Rng;
use serde_json::{Value, json};

use crate::schedule::{
    Command, Edit, Fault, FaultKind, Jump, Origin, Point, Schedule, Scope, Settings, Step, StepKind, Update,
};

/// Periods in milliseconds.
pub(super) const SECOND: u64 = 1000;
pub(super) const MINUTE: u64 = 60 * SECOND;
pub(super) const HOUR: u64 = 60 * MINUTE;
pub(super) const DAY: u64 = 24 * HOUR;
/// Maximum difference of a clock from the true time, in milliseconds.
pub(super) const MAX_OFFSET: i64 = 5000;

/// Size of a schedule.
pub(super) struct Scale {
    pub(super) entities: usize,
    pub(super) updates: usize,
    /// `true` if most updates belong to the first entity.
    pub(super) is_hot: bool,
}

impl Scale {
    /// One schedule in thirty has a hot entity. Few of these are large, because they take most of the time.
    pub(super) fn draw(rng: &mut Rng) -> Self {
        let is_hot = rng.u8(..30) == 0;
        let updates = match is_hot {
            true => pick(rng, &[30..60, 30..60, 30..60, 60..100, 60..100, 100..160]),
            false => 3..25,
        };
        Self {
            entities: rng.usize(1..=3),
            updates: rng.usize(updates),
            is_hot,
        }
    }

    pub(super) fn entity(&self, rng: &mut Rng) -> String {
        let number = match self.is_hot && rng.u8(..6) > 0 {
            true => 0,
            false => rng.usize(..self.entities),
        };
        format!("e{number}")
    }
}

/// Returns jumps of the clocks of processes during these milliseconds, within the maximum difference.
pub(super) fn jumps(rng: &mut Rng, processes: usize, duration: u64) -> Vec<Jump> {
    let mut jumps = Vec::new();
    for process in 0..processes {
        for _ in 0..rng.u8(0..4) {
            jumps.push(Jump {
                process,
                at: rng.u64(..duration),
                offset: rng.i64(-MAX_OFFSET..=MAX_OFFSET),
            });
        }
    }
    jumps
}

pub(super) fn pick<T: Clone>(rng: &mut Rng, choices: &[T]) -> T {
    choices[rng.usize(..choices.len())].clone()
}

/// The entity of most situations.
pub(super) fn e0() -> String {
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

    /// Adds a change of `e0` by another program or by hand.
    pub(super) fn edit(&mut self, at: u64, source: u8, edit: Edit) {
        self.step(at, source, StepKind::Edit(e0(), edit));
    }

    /// Adds an update of an entity, and a direct delivery of it.
    pub(super) fn direct(&mut self, at: u64, source: u8, entity: &str, origin: Origin, members: Value) -> usize {
        let update = self.update(entity, origin, members);
        self.step(at, source, StepKind::Direct(update));
        update
    }

    /// Adds an update of `e0` by a client, and its delivery.
    pub(super) fn client(&mut self, at: u64, source: u8, value: impl Into<Value>) {
        self.direct(at, source, "e0", Origin::Client, json!({"A": value.into()}));
    }

    /// Adds updates of `e0` by three clients in a period.
    pub(super) fn clients(&mut self, rng: &mut Rng, period: Range<u64>, count: u64) {
        for number in 0..count {
            let at = period.start + number * (period.end - period.start) / count;
            self.client(at, rng.u8(..3), number);
        }
    }

    /// Adds updates of an entity, one after the other, and returns their indexes.
    pub(super) fn some(&mut self, rng: &mut Rng, entity: &str, from: u64, count: Range<u64>) -> Vec<usize> {
        let mut added = Vec::new();
        for index in 0..rng.u64(count) {
            let origin = pick(rng, &[Origin::Client, Origin::TimedClient]);
            let members = json!({"A": self.updates.len()});
            added.push(self.direct(from + 50 * index, 0, entity, origin, members));
        }
        added
    }

    pub(crate) fn window(&mut self, at: u64, source: u8, scope: Scope, millis: u64) {
        self.step(at, source, StepKind::Window { scope, millis });
    }

    pub(super) fn fault(&mut self, on: Point, nth: u32, times: u32, kind: FaultKind) {
        self.faults.push(Fault { on, nth, times, kind });
    }

    /// Lets the request of an operator with this number hang.
    pub(super) fn hang(&mut self, nth: u32) {
        self.fault(Point::Operator, nth, 1, FaultKind::Hang);
    }
}

impl Settings {
    /// Chooses a mode in which an `UpdateItem` writes the latest item: its condition alone decides.
    pub(super) fn write_by_update(&mut self, rng: &mut Rng, windows: &[u8]) {
        pick(rng, &["stream", "inline"]).clone_into(&mut self.write_mode);
        self.window = Some(pick(rng, windows));
    }

    /// Chooses settings as in template.yaml, so that no record is discarded.
    pub(super) fn lose_nothing(&mut self) {
        "stream".clone_into(&mut self.write_mode);
        (self.skip_unchanged, self.startup) = (false, 0);
        (self.maximum_retry_attempts, self.maximum_record_age) = (None, None);
    }
}
