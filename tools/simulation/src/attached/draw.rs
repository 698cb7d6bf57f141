//! Generates the changes of clients to an attached table.

use fastrand::Rng;

use crate::schedule::{ChangeKind, ClientChange, Fault, FaultKind, Point, Settings};

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
        let on = [Point::Put, Point::Invoke][rng.usize(..2)];
        let kinds = match on {
            Point::Put => [FaultKind::KilledBefore, FaultKind::KilledAfter, FaultKind::Hang],
            _ => [
                FaultKind::FunctionTimeOut,
                FaultKind::Redelivered,
                FaultKind::RedeliveredInPart,
            ],
        };
        faults.push(Fault {
            on,
            nth: rng.u32(..12),
            times: rng.u32(1..4),
            kind: kinds[rng.usize(..3)],
        });
    }
}

fn fault(rng: &mut Rng) -> Fault {
    const PUTS: [FaultKind; 12] = [
        FaultKind::Throttled,
        FaultKind::ErrorBefore,
        FaultKind::ErrorAfter,
        FaultKind::ResponseDropped,
        FaultKind::TimeOut,
        FaultKind::Hang,
        FaultKind::Panic,
        FaultKind::KilledBefore,
        FaultKind::KilledAfter,
        FaultKind::Delayed,
        FaultKind::StatementsThrottled,
        FaultKind::StatementsApplied,
    ];
    const INVOCATIONS: [FaultKind; 5] = [
        FaultKind::NotInvoked,
        FaultKind::FunctionTimeOut,
        FaultKind::Redelivered,
        FaultKind::RedeliveredInPart,
        FaultKind::RedeliveredOutOfOrder,
    ];
    let on = [
        Point::Put,
        Point::Put,
        Point::Invoke,
        Point::Invoke,
        Point::Read,
        Point::Poll,
    ][rng.usize(..6)];
    let kind = match on {
        Point::Put => PUTS[rng.usize(..PUTS.len())],
        Point::Invoke => INVOCATIONS[rng.usize(..INVOCATIONS.len())],
        Point::Read => PUTS[rng.usize(..9)],
        _ => [FaultKind::Throttled, FaultKind::IteratorExpired][rng.usize(..2)],
    };
    Fault {
        on,
        nth: rng.u32(..20),
        times: [1, 1, 2, 3, 12][rng.usize(..5)],
        kind,
    }
}
