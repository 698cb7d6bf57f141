//! Generates the steps of a schedule: deliveries of its updates, failures, and what operators and other programs do.

use fastrand::Rng;

use crate::{
    draw::script::{DAY, HOUR, MINUTE, Scale, pick},
    schedule::{Command, Edit, Origin, Schedule, Scope, StepKind, Update},
};

/// Milliseconds during which most steps start.
const SPAN: u64 = 3000;

/// Returns a delivery of an update: by the source of its request id, or in a batch of messages.
fn delivery(rng: &mut Rng, updates: &[Update], update: usize) -> StepKind {
    let is_batch = rng.u8(..4) == 0;
    match updates[update].origin {
        Origin::Client | Origin::TimedClient if !is_batch => StepKind::Direct(update),
        Origin::Invocation => StepKind::Asynchronous(update),
        Origin::Event if !is_batch => StepKind::Asynchronous(update),
        _ => {
            let others = (0..rng.usize(0..=1)).map(|_| rng.usize(..updates.len()));
            let others = others.filter(|other| updates[*other].origin != Origin::Invocation);
            StepKind::Sqs(others.chain([update]).collect())
        }
    }
}

impl Schedule {
    /// Adds a step in the span that begins at a time.
    fn soon(&mut self, rng: &mut Rng, from: u64, kind: impl Into<StepKind>) {
        let at = from + rng.u64(..SPAN);
        self.step(at, rng.u8(..4), kind);
    }
}

fn one_in(rng: &mut Rng, number: u8) -> bool {
    rng.u8(..number) == 0
}

/// Adds steps for these updates.
pub(super) fn steps(rng: &mut Rng, schedule: &mut Schedule, updates: &[Update], scale: &Scale) {
    for index in 0..updates.len() {
        // The first delivery and its duplicates, in any order.
        let deliveries = 1 + pick(rng, &[0, 0, 0, 1, 2]);
        for _ in 0..deliveries {
            let kind = delivery(rng, updates, index);
            schedule.soon(rng, 0, kind);
        }
    }
    // Late duplicates, some of them among other updates.
    for _ in 0..rng.usize(0..=3) {
        let index = rng.usize(..updates.len());
        let from = pick(rng, &[SPAN, SPAN, 3 * MINUTE, 10 * MINUTE, 12 * HOUR]);
        let kind = delivery(rng, updates, index);
        schedule.soon(rng, from, kind);
    }
    if one_in(rng, 6) {
        let timed = |index: &usize| updates[*index].origin == Origin::TimedClient && updates[*index].entity != "large";
        let timed: Vec<_> = (0..updates.len()).filter(timed).collect();
        if !timed.is_empty() {
            let update = pick(rng, &timed);
            schedule.soon(rng, SPAN, StepKind::ReuseId(update));
        }
    }
    others(rng, schedule, scale);
    failures(rng, schedule, scale);
    time(rng, schedule, updates);
    commands(rng, schedule, scale);
    schedule.steps.sort_by_key(|step| step.at);
}

/// Adds what other programs and operators do without a command.
fn others(rng: &mut Rng, schedule: &mut Schedule, scale: &Scale) {
    if one_in(rng, 8) {
        let entity = scale.entity(rng);
        let edit = if rng.bool() { Edit::Recreate } else { Edit::Delete };
        schedule.soon(rng, 0, StepKind::Edit(entity, edit));
    }
    if one_in(rng, 8) {
        let entity = scale.entity(rng);
        let ahead = rng.u64(1..=3);
        schedule.soon(rng, 0, StepKind::Edit(entity, Edit::WriteVersion(ahead)));
    }
    if one_in(rng, 6) {
        for value in 0..rng.usize(1..=6) {
            let entity = scale.entity(rng);
            schedule.soon(rng, 0, StepKind::Edit(entity, Edit::Increment(value)));
        }
    }
    for number in 0..pick(rng, &[0, 0, 0, 1, 2]) {
        schedule.soon(rng, 0, StepKind::MalformedLatest(number));
    }
}

/// Adds failures that last, and what happens to the stream.
fn failures(rng: &mut Rng, schedule: &mut Schedule, scale: &Scale) {
    for _ in 0..pick(rng, &[0, 0, 1, 3]) {
        schedule.soon(rng, 0, StepKind::SplitShard);
    }
    if scale.is_hot || one_in(rng, 5) {
        // While history is behind, each update of a hot entity that is delivered again reads many versions.
        let longest = if scale.is_hot { 4000 } else { 90_000 };
        let millis = pick(rng, &[500, 2000, longest]);
        schedule.soon(rng, 0, StepKind::StopMapping(millis));
    }
    if one_in(rng, 6) {
        let millis = rng.u64(500..20_000);
        schedule.soon(rng, 0, StepKind::DenyDestination(millis));
        if one_in(rng, 2) {
            // Records fail while the destination refuses their documents.
            let scope = Scope::StreamFunctionDenied;
            schedule.soon(rng, 0, StepKind::Window { scope, millis });
        }
    }
    if one_in(rng, 4) {
        let scope = match rng.u8(..6) {
            0 => Scope::WriterDenied,
            1 => Scope::StreamFunctionDenied,
            2 => Scope::StreamDenied,
            3 => Scope::Unresponsive,
            _ => Scope::Partition(scale.entity(rng)),
        };
        let longest = if scope == Scope::Unresponsive {
            MINUTE
        } else {
            8 * MINUTE
        };
        let millis = pick(rng, &[1000, 5000, longest]);
        schedule.soon(rng, 0, StepKind::Window { scope, millis });
    }
}

/// Adds what hours and days do: records are trimmed, items expire.
fn time(rng: &mut Rng, schedule: &mut Schedule, updates: &[Update]) {
    if one_in(rng, 12) && updates.len() < 30 {
        let millis = 25 * HOUR;
        schedule.soon(rng, 0, StepKind::StopMapping(millis));
        for _ in 0..3 {
            let index = rng.usize(..updates.len());
            let kind = delivery(rng, updates, index);
            schedule.soon(rng, 26 * HOUR, kind);
        }
    }
    if schedule.settings.window.is_none() && one_in(rng, 4) {
        let from = pick(rng, &[2 * DAY, 2 * DAY, 30 * DAY]);
        schedule.soon(rng, from, StepKind::Expire);
        for _ in 0..2 {
            let index = rng.usize(..updates.len());
            if updates[index].origin == Origin::Client {
                let kind = delivery(rng, updates, index);
                schedule.soon(rng, from + SPAN, kind);
            }
        }
    }
}

fn commands(rng: &mut Rng, schedule: &mut Schedule, scale: &Scale) {
    if !one_in(rng, 3) || scale.is_hot {
        return;
    }
    for number in 0..rng.usize(1..=3) {
        let entity = scale.entity(rng);
        let command = match rng.u8(..5) {
            0 => {
                let keep = rng.u64(1..=3);
                match one_in(rng, 4) {
                    true => Command::PruneTable(keep),
                    false => Command::Prune(entity, keep),
                }
            }
            1 => Command::Purge(entity),
            2 => Command::Repair,
            3 => Command::Redrive,
            _ => Command::Backfill(number),
        };
        let from = pick(rng, &[0, 0, SPAN, MINUTE, 10 * MINUTE]);
        schedule.soon(rng, from, command);
    }
}
