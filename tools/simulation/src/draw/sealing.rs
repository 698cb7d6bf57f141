//! Generates schedules of sealing: updates, and instances of seal-fn beside them, which faults kill, while operators remove and erase.

use fastrand::Rng;
use serde_json::json;

use crate::{
    draw::{
        faults::REQUESTS,
        script::{HOUR, MINUTE, SECOND, pick},
    },
    schedule::{
        Command, Edit, Fault,
        FaultKind::{
            self, Delayed, KilledAfter, KilledBefore, Redelivered, RedeliveredOutOfOrder, Slow, TransactionConflict,
        },
        Origin, Point, SECRET, Schedule,
        StepKind::{self, Expire, RestoreState, Seal, StopMapping},
    },
};

/// Entity with values that are erased.
const ERASED: &str = "e0";
/// Entity with versions that are removed.
const REMOVED: &str = "e1";
/// Times at which several things happen. Between the second and the third one, seal-fn has stopped reading the index again.
const PHASES: [u64; 4] = [0, 3 * MINUTE, 25 * MINUTE, 50 * MINUTE];
const SPAN: u64 = 90 * SECOND;
impl Schedule {
    pub(super) fn draw_sealed(&mut self) {
        // Close seeds have similar first numbers.
        let rng = &mut Rng::with_seed(self.seed.wrapping_mul(0xD6E8_FEB8_6659_FD93));
        let settings = &mut self.settings;
        settings.lose_nothing();
        (settings.sealed, settings.by_time) = (true, false);
        settings.stale_reads = rng.u8(..3) > 0;
        settings.maximum_retry_attempts = pick(rng, &[None, None, Some(1)]);
        pick(rng, &["stream", "stream", "inline"]).clone_into(&mut settings.write_mode);
        let at = |rng: &mut Rng| pick(rng, &PHASES) + rng.u64(..SPAN);
        for number in 0..rng.usize(6..16) {
            let entity = pick(rng, &[ERASED, ERASED, REMOVED, "e2"]);
            let mut members = json!({"A": number});
            if rng.u8(..4) > 0 {
                members[SECRET] = json!(format!("secret-{number}-of-{}", self.seed));
            }
            let origin = pick(rng, &[Origin::Client, Origin::TimedClient]);
            self.direct(at(rng), rng.u8(..4), entity, origin, members);
        }
        for _ in 0..rng.u8(3..8) {
            let first = at(rng);
            self.step(first, 0, Seal);
            if rng.u8(..3) == 0 {
                self.step(first + rng.u64(..600), 0, Seal);
            }
        }
        if rng.u8(..3) == 0 {
            self.step(at(rng), 4, StopMapping(pick(rng, &[MINUTE, 20 * MINUTE])));
        }
        for _ in 0..pick(rng, &[0, 0, 1, 3]) {
            let entity = pick(rng, &[ERASED, REMOVED, "e2"]).to_owned();
            let version = rng.u64(1..5);
            self.step(at(rng), 4, StepKind::Edit(entity, Edit::Reinsert(version)));
        }
        if rng.bool() {
            self.step(at(rng), 0, Command::Erase(ERASED.to_owned()));
        }
        match rng.u8(..6) {
            0 => self.step(at(rng), 0, Command::Purge(REMOVED.to_owned())),
            1 => {
                self.step(at(rng), 0, Command::Prune(REMOVED.to_owned(), 1));
                self.step(3 * HOUR, 4, Expire);
                self.step(3 * HOUR + MINUTE, 4, Seal);
            }
            2 => self.step(at(rng), 0, pick(rng, &[Command::Redrive, Command::Repair])),
            3 if rng.bool() => self.step(at(rng), 4, RestoreState(rng.u64(1..30) * MINUTE)),
            _ => {}
        }
        self.steps.sort_by_key(|step| step.at);
        self.faults = (0..rng.usize(0..=6)).map(|_| Fault::draw_of_seal(rng)).collect();
        if rng.u8(..3) == 0 {
            // While a request is on its way, other instances seal more.
            let (on, kind, times, gap) = pick(
                rng,
                &[(Point::Swap, Slow, 4, 300), (Point::Publish, Delayed, 1, 20 * SECOND)],
            );
            let start = rng.u64(..SPAN);
            self.fault(on, rng.u32(..3), times, kind);
            for number in 0..4 {
                let time = start + number * gap;
                self.direct(time, 0, "e2", Origin::Client, json!({"A": number}));
                self.step(time + gap / 2, 0, Seal);
            }
            self.steps.sort_by_key(|step| step.at);
        }
        if self.has(|kind| matches!(kind, StepKind::Command(Command::Purge(_)))) {
            // A purge waits for the longest invocation, and not for a put that is executed after it.
            self.faults
                .retain(|fault| (fault.on, fault.kind) != (Point::Put, Delayed));
        }
    }
}

impl Fault {
    /// Draws a fault, mostly of seal-fn.
    fn draw_of_seal(rng: &mut Rng) -> Self {
        let of_seal = [KilledBefore, KilledAfter, Delayed, Slow, TransactionConflict];
        let (on, kinds, nth): (_, &[FaultKind], _) = match rng.u8(..10) {
            0 => (Point::Put, &[REQUESTS, &[Delayed]].concat(), 10),
            1 => (Point::Bump, &[REQUESTS, &[Delayed]].concat(), 10),
            2 => (Point::Invoke, &[Redelivered, RedeliveredOutOfOrder], 10),
            3 => (Point::Operator, REQUESTS, 40),
            // Only a request that changes the table can be executed late.
            4 => (Point::OperatorWrite, &[REQUESTS, &[Delayed]].concat(), 10),
            5 => (Point::Swap, &of_seal, 6),
            _ => (Point::Seal, &[REQUESTS, &of_seal].concat(), 160),
        };
        let (kind, nth, times) = (pick(rng, kinds), rng.u32(..nth), pick(rng, &[1, 1, 1, 2, 3, 8]));
        Self { on, nth, times, kind }
    }
}
