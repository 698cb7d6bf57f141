//! Situations of layouts: a deployment with another one, and a copy of the table.

use fastrand::Rng;

use super::Situation;
use crate::{
    draw::{SECOND, pick},
    schedule::{Command, Content, FaultKind, Point, Schedule, Step, StepKind},
    windows::Scope,
};

pub(super) const SITUATIONS: &[Situation] = &[wrong_layout, copied_table];
pub(super) const FURTHER: &[Situation] = &[
    wrong_writer,
    unchecked_layout,
    rolled_back_deployment,
    early_stream_function,
];

/// Adds updates of an entity, one a second.
fn updates(rng: &mut Rng, schedule: &mut Schedule) {
    for number in 0..rng.u64(3..8) {
        schedule.client(SECOND * number, number);
    }
}

/// For some invocations, stream-fn is deployed with another width of version keys, or with the other table of history.
fn wrong_layout(rng: &mut Rng, schedule: &mut Schedule) {
    without_losses(schedule);
    updates(rng, schedule);
    schedule.fault(
        Point::Invoke,
        rng.u32(..3),
        rng.u32(1..=6),
        pick(rng, &[FaultKind::WrongLayout, FaultKind::WrongHistory]),
    );
}

/// For some invocations, writer-fn is deployed with another width of version keys, or without the table of history.
fn wrong_writer(rng: &mut Rng, schedule: &mut Schedule) {
    schedule.settings.own_history = true;
    schedule.settings.skip_unchanged = false;
    updates(rng, schedule);
    schedule.fault(
        Point::InvokeWriter,
        rng.u32(..3),
        rng.u32(1..=6),
        pick(rng, &[FaultKind::WrongLayout, FaultKind::WrongHistory]),
    );
}

/// stream-fn is deployed without the table of history, and starts before writer-fn stores the layout. A table without a layout is one of
/// the default, so the check succeeds then.
fn early_stream_function(rng: &mut Rng, schedule: &mut Schedule) {
    without_losses(schedule);
    let settings = &mut schedule.settings;
    (settings.own_history, settings.digits, settings.starts_early) = (true, 1, true);
    updates(rng, schedule);
    schedule.fault(Point::Invoke, rng.u32(..3), rng.u32(1..=6), FaultKind::WrongHistory);
}

/// The functions start while the requests of their check of the layout are throttled or denied.
fn unchecked_layout(rng: &mut Rng, schedule: &mut Schedule) {
    without_losses(schedule);
    let scope = pick(rng, &[Scope::LayoutThrottled, Scope::LayoutDenied]);
    let millis = rng.u64(SECOND..20 * SECOND);
    schedule.step(0, 0, StepKind::Window { scope, millis });
    // Its record is there before the functions have checked the layout.
    let put = |at| {
        let (entity, content) = ("e1".to_owned(), Content::Small);
        Step {
            at,
            source: 1,
            kind: StepKind::PutLatest { entity, content },
        }
    };
    schedule.steps.extend([put(10), put(SECOND), put(millis + SECOND)]);
    for number in 0..8 {
        schedule.client(10 + 3 * SECOND * number, number);
    }
}

/// The first deployment was rolled back, the functions are deployed with another history table, and an operator adopts it after some
/// updates.
fn rolled_back_deployment(rng: &mut Rng, schedule: &mut Schedule) {
    without_losses(schedule);
    (schedule.settings.own_history, schedule.settings.rolled_back) = (true, true);
    let (entity, content) = ("e1".to_owned(), Content::Small);
    if rng.bool() {
        schedule.step(0, 1, StepKind::PutLatest { entity, content });
    }
    updates(rng, schedule);
    let at = rng.u64(..8 * SECOND);
    schedule.command(at, 2, Command::AdoptTable);
}

/// Chooses settings as in template.yaml, so that no record is discarded.
fn without_losses(schedule: &mut Schedule) {
    let settings = &mut schedule.settings;
    "stream".clone_into(&mut settings.write_mode);
    settings.skip_unchanged = false;
    settings.startup = 0;
    settings.maximum_retry_attempts = None;
    settings.maximum_record_age = None;
}

/// An operator restores a backup to another table, runs the functions on it, and prunes and purges an entity of the copy.
fn copied_table(rng: &mut Rng, schedule: &mut Schedule) {
    schedule.settings.own_history = true;
    schedule.settings.skip_unchanged = false;
    updates(rng, schedule);
    let entity = "e0".to_owned();
    let at = rng.u64(..12 * SECOND);
    schedule.command(at, 1, Command::UseCopy { entity });
}
