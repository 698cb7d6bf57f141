//! Generates the steps of a schedule: deliveries of its updates, failures, and what operators and other programs do.

use fastrand::Rng;

use crate::{
    draw::script::{DAY, HOUR, MINUTE, Scale, pick},
    schedule::{Command, Edit, Origin, Scope, Settings, Step, StepKind, Update},
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

/// Returns the steps of a schedule, in the order of their times.
pub(super) fn steps(rng: &mut Rng, updates: &[Update], scale: &Scale, settings: &Settings) -> Vec<Step> {
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
            steps.add(SPAN, StepKind::ReuseId(update));
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
        let edit = if steps.rng.bool() { Edit::Recreate } else { Edit::Delete };
        steps.add(0, StepKind::Edit(entity, edit));
    }
    if steps.one_in(8) {
        let entity = scale.entity(steps.rng);
        let ahead = steps.rng.u64(1..=3);
        steps.add(0, StepKind::Edit(entity, Edit::WriteVersion(ahead)));
    }
    if steps.one_in(6) {
        for value in 0..steps.rng.usize(1..=6) {
            let entity = scale.entity(steps.rng);
            steps.add(0, StepKind::Edit(entity, Edit::Increment(value)));
        }
    }
    for number in 0..pick(steps.rng, &[0, 0, 0, 1, 2]) {
        steps.add(0, StepKind::MalformedLatest(number));
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
        steps.add(0, StepKind::StopMapping(millis));
    }
    if steps.one_in(6) {
        let millis = steps.rng.u64(500..20_000);
        steps.add(0, StepKind::DenyDestination(millis));
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
        steps.add(0, StepKind::StopMapping(millis));
        for _ in 0..3 {
            let index = steps.rng.usize(..updates.len());
            let kind = delivery(steps.rng, updates, index);
            steps.add(26 * HOUR, kind);
        }
    }
    if settings.window.is_none() && steps.one_in(4) {
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
            0 => {
                let keep = steps.rng.u64(1..=3);
                match steps.one_in(4) {
                    true => Command::PruneTable(keep),
                    false => Command::Prune(entity, keep),
                }
            }
            1 => Command::Purge(entity),
            2 => Command::Repair,
            3 => Command::Redrive,
            _ => Command::Backfill(number),
        };
        let from = pick(steps.rng, &[0, 0, SPAN, MINUTE, 10 * MINUTE]);
        steps.add(from, StepKind::Command(command));
    }
}
