//! Situations of layouts: a deployment with another one, and a copy of the table.

use super::*;

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
        schedule.client(SECOND * number, 0, number);
    }
}

/// Lets some invocations run a function with one of these layouts.
fn misdeploy(rng: &mut Rng, schedule: &mut Schedule, on: Point, kinds: &[FaultKind]) {
    updates(rng, schedule);
    let (nth, times) = (rng.u32(..3), rng.u32(1..=6));
    schedule.fault(on, nth, times, pick(rng, kinds));
}

/// For some invocations, stream-fn is deployed with another width of version keys, or with the other table of history.
fn wrong_layout(rng: &mut Rng, schedule: &mut Schedule) {
    schedule.settings.lose_nothing();
    misdeploy(
        rng,
        schedule,
        Point::Invoke,
        &[FaultKind::WrongLayout, FaultKind::WrongHistory],
    );
}

/// For some invocations, writer-fn is deployed with another width of version keys, or without the table of history.
fn wrong_writer(rng: &mut Rng, schedule: &mut Schedule) {
    (schedule.settings.own_history, schedule.settings.skip_unchanged) = (true, false);
    let kinds = [FaultKind::WrongLayout, FaultKind::WrongHistory];
    misdeploy(rng, schedule, Point::InvokeWriter, &kinds);
}

/// stream-fn is deployed without the table of history, and starts before writer-fn stores the layout. A table without a layout is one of
/// the default, so the check succeeds then.
fn early_stream_function(rng: &mut Rng, schedule: &mut Schedule) {
    let settings = &mut schedule.settings;
    settings.lose_nothing();
    (settings.own_history, settings.digits, settings.starts_early) = (true, 1, true);
    updates(rng, schedule);
    schedule.fault(Point::Invoke, rng.u32(..3), rng.u32(1..=6), FaultKind::WrongHistory);
}

/// The functions start while the requests of their check of the layout are throttled or denied.
fn unchecked_layout(rng: &mut Rng, schedule: &mut Schedule) {
    schedule.settings.lose_nothing();
    let scope = pick(rng, &[Scope::LayoutThrottled, Scope::LayoutDenied]);
    let millis = rng.u64(SECOND..20 * SECOND);
    schedule.window(0, 0, scope, millis);
    // Its record is there before the functions have checked the layout.
    for at in [10, SECOND, millis + SECOND] {
        let (entity, content) = ("e1".to_owned(), Content::Small);
        schedule.step(at, 1, PutLatest { entity, content });
    }
    for number in 0..8 {
        schedule.client(10 + 3 * SECOND * number, 0, number);
    }
}

/// The first deployment was rolled back, the functions are deployed with another history table, and an operator adopts it after some
/// updates.
fn rolled_back_deployment(rng: &mut Rng, schedule: &mut Schedule) {
    schedule.settings.lose_nothing();
    (schedule.settings.own_history, schedule.settings.rolled_back) = (true, true);
    if rng.bool() {
        let (entity, content) = ("e1".to_owned(), Content::Small);
        schedule.step(0, 1, PutLatest { entity, content });
    }
    updates(rng, schedule);
    schedule.step(rng.u64(..8 * SECOND), 2, Command::AdoptTable);
}

/// An operator restores a backup to another table, runs the functions on it, and prunes and purges an entity of the copy.
fn copied_table(rng: &mut Rng, schedule: &mut Schedule) {
    (schedule.settings.own_history, schedule.settings.skip_unchanged) = (true, false);
    updates(rng, schedule);
    schedule.step(rng.u64(..12 * SECOND), 1, Command::UseCopy { entity: e0() });
}
