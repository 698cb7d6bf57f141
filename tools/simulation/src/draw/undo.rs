//! Undos beside updates: a job changes the same attributes as its colleagues, and operators take back what it did.

use std::ops::Range;

use fastrand::Rng;
use serde_json::{Value, json};

use crate::{
    draw::script::{MINUTE, e0, pick},
    schedule::{ChangeKind, Command, Fault, FaultKind, Origin, Point, Schedule, Scope, StepKind, Update},
    undo::{Conflicts, Selected, Undo},
};

/// One schedule in this number is of an attached table.
const ATTACHED: u8 = 3;
/// Milliseconds in which the updates are delivered.
const SPAN: u64 = 4000;
/// Milliseconds in which most undos run.
const RUN: u64 = 300;
/// Milliseconds in which they write in races, in which writes are slow.
const SLOW_RUN: Range<u64> = 100..1000;
/// One in this number loses records, so that history can stay incomplete.
const LOSSY: u8 = 4;
/// Milliseconds from one race to the next, which are enough for history to be complete again, and of the changes in it.
const RACE: u64 = 8000;
const CHANGES: [u64; 4] = [2500, 2000, 1500, 1000];

impl Schedule {
    pub(super) fn draw_undos(&mut self, rng: &mut Rng) {
        let settings = &mut self.settings;
        settings.startup = 0;
        (settings.attached, settings.stale_reads) = (rng.u8(..ATTACHED) == 0, rng.bool());
        if settings.attached || rng.u8(..LOSSY) > 0 {
            (settings.maximum_retry_attempts, settings.maximum_record_age) = (None, None);
        }
        let times: Vec<_> = (0..rng.usize(1..=3)).map(|_| rng.u64(500..SPAN + 1000)).collect();
        if settings.attached {
            settings.has_authors = true;
            settings.new_images = rng.u8(..4) == 0;
            self.draw_changes(rng, &times);
        } else {
            self.draw_updates(rng, &times);
        }
        for (number, at) in times.iter().enumerate() {
            let undo = self.draw_undo(rng, number);
            self.step(*at, 4, Command::Undo(undo));
        }
        for _ in 0..pick(rng, &[0, 1, 1, 2]) {
            let (at, millis) = (rng.u64(..SPAN), rng.u64(300..7000));
            self.step(at, 4, StepKind::StopMapping(millis));
        }
        if !self.settings.attached && rng.u8(..8) == 0 {
            self.window(rng.u64(..SPAN), 4, Scope::Partition(e0()), rng.u64(200..MINUTE / 10));
        }
        self.faults = (0..rng.usize(0..=5)).map(|_| Fault::draw_of_undo(rng)).collect();
        self.steps.sort_by_key(|step| step.at);
    }

    /// Draws undos of one entity, each after changes by a job and others, and with changes between its plan and its write. In some, history is
    /// behind.
    pub(super) fn draw_races(&mut self, rng: &mut Rng) {
        let settings = &mut self.settings;
        (settings.startup, settings.attached) = (0, rng.bool());
        (settings.maximum_retry_attempts, settings.maximum_record_age) = (None, None);
        (settings.has_authors, settings.stale_reads) = (settings.attached, rng.bool());
        if rng.u8(..4) > 0 {
            settings.write_by_update(rng, &[4, 16]);
            // The time of a version after the plan does not protect it.
            settings.clock_offsets.fill(rng.i64(-5000..=0));
        }
        let mut versions = 0;
        for number in 0..4 {
            let (at, set) = (RACE * (u64::from(number) + 1), number + 1);
            for (count, before) in CHANGES.into_iter().enumerate() {
                // Mostly, only the job changes what it changes.
                let (set, attributes, kinds) = match count % 2 == 0 {
                    true => (set, 0..2, 3..4),
                    false => (0, pick(rng, &[1..3, 2..3]), 0..9),
                };
                self.draw_change(rng, at - before, set, attributes, kinds);
            }
            if rng.bool() && (!self.settings.attached || rng.bool()) {
                self.step(at - 1700, 4, StepKind::StopMapping(rng.u64(800..4000)));
            }
            let mut undo = self.draw_undo(rng, number.into());
            undo.saved = undo.saved.map(|pause| pause / 10);
            match rng.u8(..4) {
                0 => {}
                1 => undo.selected = Selected::ChangeSet(format!("job-{set}")),
                _ => undo.selected = Selected::Version(self.undone(), versions + pick(rng, &[1, 3, 3, 3, 4])),
            }
            self.step(at, 4, Command::Undo(undo));
            let kinds = pick(rng, &[1..3, 1..3, 0..9, 3..9]);
            let mut meets: Vec<_> = (0..rng.u64(1..4)).map(|_| at + rng.u64(SLOW_RUN)).collect();
            meets.sort_unstable();
            versions += CHANGES.len() as u64 + meets.len() as u64 + 1;
            for meets in meets {
                let set = if rng.u8(..4) == 0 { set } else { 0 };
                self.draw_change(rng, meets, set, 0..2, kinds.clone());
            }
        }
        self.faults = (0..rng.usize(0..=1)).map(|_| Fault::draw_of_undo(rng)).collect();
        if rng.u8(..4) > 0 {
            self.fault(Point::OperatorWrite, 0, u32::MAX, FaultKind::Slow);
        }
    }

    /// Draws a change of the entity of the races, of a set of changes of the job if it is not 0.
    fn draw_change(&mut self, rng: &mut Rng, at: u64, set: u8, attributes: Range<usize>, kinds: Range<u8>) {
        let (value, attribute) = (rng.u8(..5), rng.usize(attributes));
        if self.settings.attached {
            let kind = match rng.u8(kinds) {
                0 => ChangeKind::Update(value),
                1 | 2 => ChangeKind::Set { attribute, value },
                _ => ChangeKind::Work { set, attribute, value },
            };
            return self.step(at, 0, StepKind::Change { item: 0, kind });
        }
        let number = self.updates.len();
        let mut members = json!({"Actor": "clerk", (format!("Of{number}")): number});
        members[["A", "B", "C"][attribute]] = json!(value);
        if self.settings.by_time {
            members["Timestamp"] = json!(number);
        }
        if set > 0 {
            (members["Actor"], members["ChangeSet"]) = (json!("job"), json!(format!("job-{set}")));
        }
        self.updates.push(Update::new(number, "e0", members, Origin::Client));
        self.step(at, 0, StepKind::Direct(number));
    }

    /// Returns the entity whose versions are undone by their numbers.
    fn undone(&self) -> String {
        match self.settings.attached {
            true => r#"{"id":"i0"}"#.to_owned(),
            false => e0(),
        }
    }

    fn draw_undo(&self, rng: &mut Rng, number: usize) -> Undo {
        let earlier = format!("undo-{}", number.saturating_sub(1));
        let job = || Selected::Actor("job".to_owned());
        Undo {
            number,
            selected: match rng.u8(..6) {
                0 => Selected::ChangeSet("job-1".to_owned()),
                1 | 2 if number > 0 => Selected::ChangeSet(earlier),
                3 => Selected::Version(self.undone(), rng.u64(1..8)),
                _ => job(),
            },
            conflicts: pick(
                rng,
                &[
                    Conflicts::Leave,
                    Conflicts::Leave,
                    Conflicts::SkipPath,
                    Conflicts::Overwrite,
                ],
            ),
            saved: (rng.u8(..3) == 0).then(|| rng.u64(..2000)),
        }
    }

    /// Draws updates, each with an attribute of its own that no other one changes.
    fn draw_updates(&mut self, rng: &mut Rng, undone: &[u64]) {
        for number in 0..rng.usize(6..24) {
            let mut members = json!({});
            for name in ["A", "B", "C"] {
                match rng.u8(..8) {
                    0 => members[name] = Value::Null,
                    1 | 2 => members[name] = json!(rng.u8(..3)),
                    _ => {}
                }
            }
            match rng.u8(..12) {
                0 => members["Map"] = json!({"X": rng.u8(..3), "Y": {"Z": rng.u8(..3)}}),
                1 => members["Map"] = json!({"$update": {"X": rng.u8(..3)}}),
                2 => members["Map"] = json!({"$update": {"Y": {"$update": {"Z": rng.u8(..3)}}}}),
                3 => members = json!({"Deleted": true}),
                _ => members[format!("Of{number}")] = json!(number),
            }
            if self.settings.by_time {
                members["Timestamp"] = json!(200 * number + rng.usize(..1000));
            }
            match rng.u8(..5) {
                0 | 1 => {
                    members["Actor"] = json!("job");
                    members["ChangeSet"] = json!(format!("job-{}", rng.u8(1..3)));
                }
                _ => members["Actor"] = json!("clerk"),
            }
            let entity = pick(rng, &["e0", "e0", "e1"]);
            let origin = pick(rng, &[Origin::Client, Origin::TimedClient, Origin::TimedClient]);
            self.updates.push(Update::new(number, entity, members, origin));
            for _ in 0..pick(rng, &[1, 1, 1, 2]) {
                let at = time(rng, undone);
                self.step(at, rng.u8(..4), StepKind::Direct(number));
            }
        }
    }

    fn draw_changes(&mut self, rng: &mut Rng, undone: &[u64]) {
        for _ in 0..rng.usize(6..30) {
            let value = rng.u8(..3);
            let kind = match rng.u8(..16) {
                0 => ChangeKind::Put(value),
                1 | 2 => ChangeKind::Update(value),
                3 => ChangeKind::Touch(value),
                4 => ChangeKind::Delete,
                _ => ChangeKind::Work {
                    set: pick(rng, &[0, 0, 0, 1, 2]),
                    attribute: rng.usize(..4),
                    value,
                },
            };
            let item = pick(rng, &[0, 0, 1]);
            self.step(time(rng, undone), 0, StepKind::Change { item, kind });
        }
    }
}

/// Returns a time, of which many are while an undo runs.
fn time(rng: &mut Rng, undone: &[u64]) -> u64 {
    match rng.bool() {
        true => pick(rng, undone) + rng.u64(..RUN),
        false => rng.u64(..SPAN),
    }
}
