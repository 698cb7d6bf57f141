//! Situations of layouts: a deployment with another one, and a copy of the table.

use fastrand::Rng;
use serde_json::json;

use super::Situation;
use crate::schedule::{Command, Fault, FaultKind, Origin, Point, Schedule, StepKind};

const SECOND: u64 = 1000;

pub(super) const SITUATIONS: &[Situation] = &[wrong_layout, copied_table];

/// Adds updates of an entity, one a second.
fn updates(rng: &mut Rng, schedule: &mut Schedule) {
    for number in 0..rng.u64(3..8) {
        let update = schedule.update("e0", Origin::Client, json!({"A": number}));
        schedule.step(SECOND * number, 0, StepKind::Direct { update });
    }
}

/// For some invocations, stream-fn is deployed with another width of version keys.
fn wrong_layout(rng: &mut Rng, schedule: &mut Schedule) {
    let settings = &mut schedule.settings;
    "stream".clone_into(&mut settings.write_mode);
    settings.skip_unchanged = false;
    settings.startup = 0;
    // As in template.yaml.
    settings.maximum_retry_attempts = None;
    settings.maximum_record_age = None;
    updates(rng, schedule);
    schedule.faults.push(Fault {
        on: Point::Invoke,
        nth: rng.u32(..3),
        times: rng.u32(1..=6),
        kind: FaultKind::WrongLayout,
    });
}

/// An operator restores a backup to another table, and purges an entity of the copy.
fn copied_table(rng: &mut Rng, schedule: &mut Schedule) {
    schedule.settings.own_history = true;
    schedule.settings.skip_unchanged = false;
    updates(rng, schedule);
    let entity = "e0".to_owned();
    let at = rng.u64(..12 * SECOND);
    schedule.step(at, 1, StepKind::Command(Command::PurgeCopy { entity }));
}
