//! Situations of a migration: history is moved to its own table while updates are delivered.

use fastrand::Rng;
use serde_json::json;

use super::Situation;
use crate::{
    draw::pick,
    schedule::{Command, Fault, FaultKind, Origin, Point, Schedule, StepKind},
};

const SECOND: u64 = 1000;
const MINUTE: u64 = 60 * SECOND;
/// Time of the deployment.
const DEPLOY: u64 = MINUTE;
/// Time at which a migration has ended, unless a fault delays it.
const END: u64 = 5 * MINUTE;

pub(super) const SITUATIONS: &[Situation] = &[migration];

/// Updates are delivered before, during and after the deployment and the migration, some of them again. Invocations hang while the
/// functions are deployed, and commands of operators run beside the migration.
fn migration(rng: &mut Rng, schedule: &mut Schedule) {
    let settings = &mut schedule.settings;
    (settings.own_history, settings.migrates) = (true, true);
    settings.startup = 0;
    settings.window = pick(rng, &[Some(1), Some(2), Some(16), None]);
    schedule.step(DEPLOY, 0, StepKind::Deploy);
    let is_early = rng.u8(..3) == 0;
    let start = if is_early {
        invocation_during_deployment(rng, schedule);
        DEPLOY + rng.u64(..100)
    } else {
        DEPLOY + rng.u64(..30) * SECOND
    };
    schedule.step(start, 0, StepKind::Command(Command::Migrate));
    let before = if is_early { 0..1 } else { 2..6 };
    let meanwhile = if is_early { 0..1 } else { 2..8 };
    for (from, span, count) in [
        (0, 50 * SECOND, before),
        (DEPLOY - SECOND, 2 * SECOND, meanwhile),
        (DEPLOY + SECOND, 2 * MINUTE, 2..6),
        (END, MINUTE, 0..3),
    ] {
        for _ in 0..rng.u64(count) {
            let origin = pick(rng, &[Origin::Client, Origin::TimedClient, Origin::TimedClient]);
            let entity = pick(rng, &["e0", "e0", "e1"]);
            let number = schedule.updates.len();
            let mut members = json!({"A": number});
            if rng.u8(..6) == 0 {
                members["Deleted"] = json!(true);
            }
            let update = schedule.update(entity, origin, members);
            let at = from + rng.u64(..span);
            schedule.step(at, rng.u8(..4), StepKind::Direct { update });
            if origin == Origin::TimedClient && rng.bool() {
                let during = DEPLOY + rng.u64(..2 * MINUTE);
                let again = pick(rng, &[at + SECOND, during, END + MINUTE]);
                schedule.step(again.max(at), rng.u8(..4), StepKind::Direct { update });
            }
        }
    }
    if !is_early && rng.u8(..3) == 0 {
        let millis = pick(rng, &[20 * SECOND, 3 * MINUTE, 20 * MINUTE]);
        schedule.step(DEPLOY - rng.u64(..30) * SECOND, 1, StepKind::StopMapping { millis });
    }
    if rng.u8(..4) == 0 {
        // The next update must not count from 1: the versions are still in the table of latest items.
        let deletion = StepKind::DeleteLatest {
            entity: "e0".to_owned(),
            create: false,
        };
        schedule.step(DEPLOY + 2 * SECOND, 0, deletion);
        let update = schedule.update("e0", Origin::Client, json!({"A": "after"}));
        schedule.step(DEPLOY + 5 * SECOND, 0, StepKind::Direct { update });
    }
    if rng.u8(..4) == 0 {
        let at = DEPLOY + SECOND + rng.u64(..2 * MINUTE);
        schedule.step(at, 0, StepKind::Command(Command::Repair));
    }
    for _ in 0..rng.u8(..4) {
        let on = pick(rng, &[Point::Bump, Point::Put, Point::Put, Point::Operator]);
        let kinds = [
            FaultKind::Hang,
            FaultKind::TimeOut,
            FaultKind::KilledAfter,
            FaultKind::KilledBefore,
            FaultKind::ErrorAfter,
        ];
        schedule.faults.push(Fault {
            on,
            nth: rng.u32(..20),
            times: pick(rng, &[1, 1, 3]),
            kind: match on {
                Point::Bump if rng.bool() => FaultKind::Delayed,
                _ => pick(rng, &kinds),
            },
        });
    }
}

/// An invocation of stream-fn starts before the deployment and puts its version after a migration that starts at once.
fn invocation_during_deployment(rng: &mut Rng, schedule: &mut Schedule) {
    "stream".clone_into(&mut schedule.settings.write_mode);
    schedule.settings.batching_window = 0;
    let update = schedule.update("e0", Origin::Client, json!({"A": "before"}));
    schedule.step(DEPLOY - 1500 - rng.u64(..400), 3, StepKind::Direct { update });
    schedule.faults.push(Fault {
        on: Point::Put,
        nth: 0,
        times: 1,
        kind: FaultKind::Hang,
    });
}
