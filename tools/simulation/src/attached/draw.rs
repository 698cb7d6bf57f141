//! Generates the changes of clients to an attached table.

use fastrand::Rng;

use crate::{
    draw::{INVOCATIONS, REQUESTS, pick},
    schedule::{ChangeKind, ClientChange, Fault, FaultKind, Point, Settings},
};

const STATES: u8 = 3;
/// One schedule of this number has items at the size limit.
const LARGE: u8 = 12;

/// Draws changes, and the faults of stream-fn beside them.
pub(crate) fn draw(rng: &mut Rng) -> (Vec<ClientChange>, Vec<Fault>) {
    let items = rng.u8(1..=4);
    // Most changes come close together, so that an invocation has several of an item.
    let pause = [50, 400, 3000][rng.usize(..3)];
    let mut at = 0;
    let changes = (0..rng.usize(4..50)).map(|_| {
        at += rng.u64(0..pause);
        let state = rng.u8(..STATES);
        let kind = match rng.u8(..12) {
            0..=2 => ChangeKind::Put(state),
            3..=6 => ChangeKind::Update(state),
            7 | 8 => ChangeKind::Touch(state),
            9 | 10 => ChangeKind::Delete,
            _ if rng.u8(..4) == 0 => ChangeKind::Split,
            _ => ChangeKind::Put(state),
        };
        let item = rng.u8(..items);
        ClientChange { at, item, kind }
    });
    let mut changes: Vec<_> = changes.collect();
    let faults = (0..rng.usize(0..=5)).map(|_| fault(rng)).collect();
    if rng.u8(..LARGE) == 0 {
        let puts = changes
            .iter_mut()
            .filter(|change| matches!(change.kind, ChangeKind::Put(_)));
        for change in puts.take(3) {
            change.kind = ChangeKind::Large(rng.u8(..STATES));
        }
    }
    (changes, faults)
}

/// Lets records fail while later ones of their items are stored, so that a redrive makes them late. Some have made their version before
/// they fail. Late records were once discarded wrongly, and reported as never discarded.
pub(crate) fn late_records(rng: &mut Rng, settings: &mut Settings, faults: &mut Vec<Fault>) {
    settings.maximum_retry_attempts = Some(rng.u32(..2));
    for _ in 0..rng.u8(2..6) {
        let on = pick(rng, &[Point::Put, Point::Invoke]);
        let kinds = match on {
            Point::Put => [FaultKind::KilledBefore, FaultKind::KilledAfter, FaultKind::Hang],
            _ => [
                FaultKind::FunctionTimeOut,
                FaultKind::Redelivered,
                FaultKind::RedeliveredInPart,
            ],
        };
        let (nth, times, kind) = (rng.u32(..12), rng.u32(1..4), pick(rng, &kinds));
        faults.push(Fault { on, nth, times, kind });
    }
}

fn fault(rng: &mut Rng) -> Fault {
    const STATEMENTS: [FaultKind; 3] = [
        FaultKind::Delayed,
        FaultKind::StatementsThrottled,
        FaultKind::StatementsApplied,
    ];
    let points = [
        Point::Put,
        Point::Put,
        Point::Invoke,
        Point::Invoke,
        Point::Read,
        Point::Poll,
    ];
    let on = pick(rng, &points);
    let kind = match on {
        Point::Put => pick(rng, &[&REQUESTS[..], &STATEMENTS].concat()),
        // It names records of the batch only.
        Point::Invoke => pick(rng, &INVOCATIONS[..5]),
        Point::Read => pick(rng, &REQUESTS),
        _ => pick(rng, &[FaultKind::Throttled, FaultKind::IteratorExpired]),
    };
    let (nth, times) = (rng.u32(..20), pick(rng, &[1, 1, 2, 3, 12]));
    Fault { on, nth, times, kind }
}
