//! Situations for which a guard exists, and which random steps seldom create: few updates at chosen times.

mod deletions;
mod functions;
mod layouts;
mod operators;
mod writers;

use fastrand::Rng;
use serde_json::{Value, json};

use crate::schedule::{Command, Fault, FaultKind, Origin, Point, Schedule, Settings, Step, StepKind, Update};
use crate::windows::Scope;

/// Fills a schedule that has only settings, and can change these.
pub(super) type Situation = fn(&mut Rng, &mut Schedule);

/// One situation in this number is one of [`FURTHER`].
const OF_FURTHER: u8 = 3;
/// Situations of deployments, operators and other programs.
const FURTHER: &[&[Situation]] = &[layouts::FURTHER, deletions::FURTHER, writers::FURTHER];

/// Returns one of the situations.
pub(super) fn pick(rng: &mut Rng) -> Situation {
    let situation = super::pick(
        rng,
        &[
            functions::SITUATIONS,
            deletions::SITUATIONS,
            operators::SITUATIONS,
            layouts::SITUATIONS,
            operators::PRUNED,
            writers::SITUATIONS,
        ]
        .concat(),
    );
    match rng.u8(..OF_FURTHER) {
        0 => super::pick(rng, &FURTHER.concat()),
        _ => situation,
    }
}

/// Returns a schedule of a situation.
pub(super) fn draw(rng: &mut Rng, situation: Situation, seed: u64, settings: Settings) -> Schedule {
    let mut schedule = Schedule {
        seed,
        settings,
        ..Schedule::default()
    };
    situation(rng, &mut schedule);
    schedule.steps.sort_by_key(|step| step.at);
    schedule
}

impl Schedule {
    /// Adds an update of an entity, and returns its index.
    fn update(&mut self, entity: &str, origin: Origin, mut members: Value) -> usize {
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
    fn step(&mut self, at: u64, source: u8, kind: StepKind) {
        self.steps.push(Step { at, source, kind });
    }

    /// Adds an update of an entity, and a direct delivery of it.
    fn direct(&mut self, at: u64, source: u8, entity: &str, origin: Origin, members: Value) -> usize {
        let update = self.update(entity, origin, members);
        self.step(at, source, StepKind::Direct { update });
        update
    }

    /// Adds an update of `e0` by a client, and its delivery.
    fn client(&mut self, at: u64, value: impl Into<Value>) {
        self.direct(at, 0, "e0", Origin::Client, json!({"A": value.into()}));
    }

    fn window(&mut self, at: u64, source: u8, scope: Scope, millis: u64) {
        self.step(at, source, StepKind::Window { scope, millis });
    }

    fn command(&mut self, at: u64, source: u8, command: Command) {
        self.step(at, source, StepKind::Command(command));
    }

    fn fault(&mut self, on: Point, nth: u32, times: u32, kind: FaultKind) {
        self.faults.push(Fault { on, nth, times, kind });
    }
}
