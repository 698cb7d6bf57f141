//! Situations of change sets.

use fastrand::Rng;
use serde_json::json;

use crate::{
    draw::script::{MINUTE, SECOND, pick},
    schedule::{FaultKind, Origin, Point, Schedule, StepKind::Direct},
};

impl Schedule {
    /// Adds a change set of some entities, and a delivery of it. Returns its first update.
    fn set(&mut self, (at, source): (u64, u8), entities: &[usize], origin: Origin) -> usize {
        let first = self.updates.len();
        let id = format!("r{first}");
        for entity in entities {
            let members = json!({"A": at, "ChangeSet": id});
            let update = self.update(&format!("e{entity}"), origin, members);
            self.updates[update].id.clone_from(&id);
        }
        self.step(at, source, Direct(first));
        first
    }
}

/// Change sets of the same entities from several clients, and single updates between them. Requests and responses are lost, and sets are
/// delivered again.
pub(in crate::draw) fn change_sets(rng: &mut Rng, schedule: &mut Schedule) {
    let settings = &mut schedule.settings;
    (settings.by_time, settings.skip_unchanged, settings.startup) = (false, false, 0);
    (settings.maximum_retry_attempts, settings.maximum_record_age) = (None, None);
    let span = pick(rng, &[200, 2000, 20_000]);
    for _ in 0..rng.u64(2..9) {
        let (at, source) = (rng.u64(..span), rng.u8(..4));
        let origin = pick(
            rng,
            &[Origin::Client, Origin::TimedClient, Origin::TimedClient, Origin::Event],
        );
        let mut entities: Vec<_> = (0..4).collect();
        rng.shuffle(&mut entities);
        if rng.u8(..3) == 0 {
            schedule.direct(at, source, &format!("e{}", entities[0]), origin, json!({"A": at}));
            continue;
        }
        let first = schedule.set((at, source), &entities[..rng.usize(2..=4)], origin);
        if origin != Origin::Client && rng.bool() {
            let again = at + pick(rng, &[1, SECOND, MINUTE, 20 * MINUTE]);
            schedule.step(again, rng.u8(..4), Direct(first));
        }
    }
    let kinds = [
        FaultKind::TransactionConflict,
        FaultKind::Throttled,
        FaultKind::ErrorBefore,
        FaultKind::ErrorAfter,
        FaultKind::RequestDropped,
        FaultKind::ResponseDropped,
        FaultKind::Delayed,
        FaultKind::Delayed,
        FaultKind::TimeOut,
        FaultKind::Hang,
        FaultKind::Panic,
        FaultKind::KilledBefore,
        FaultKind::KilledAfter,
    ];
    for _ in 0..rng.u8(..5) {
        let point = pick(rng, &[Point::Bump, Point::Bump, Point::Bump, Point::Read]);
        let kind = match point {
            Point::Read => pick(
                rng,
                &[FaultKind::ErrorBefore, FaultKind::Throttled, FaultKind::KilledBefore],
            ),
            _ => pick(rng, &kinds),
        };
        schedule.fault(point, rng.u32(..16), rng.u32(1..=2), kind);
    }
    if rng.bool() {
        // One entity loses the requests of the sets from its map, and the others do not.
        schedule.settings.window = Some(1);
        for number in 0..rng.u64(10..20) {
            schedule.direct(span + 20 * number, 3, "e0", Origin::Client, json!({"A": number}));
        }
    }
    schedule.steps.sort_by_key(|step| step.at);
}
