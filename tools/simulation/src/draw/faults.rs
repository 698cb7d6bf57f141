//! Generates faults of requests and invocations.

use fastrand::Rng;

use crate::{
    draw::script::{Scale, pick},
    schedule::{
        Fault,
        FaultKind::{
            self, BadResponse, Delayed, ErrorAfter, ErrorBefore, FunctionTimeOut, Hang, IteratorExpired, KilledAfter,
            KilledBefore, NotInvoked, Panic, Redelivered, RedeliveredInPart, RedeliveredOutOfOrder, Rejected,
            ResponseDropped, StatementsApplied, StatementsThrottled, Throttled, TimeOut, TransactionConflict,
            Unprocessed,
        },
        Point,
    },
};

pub(super) const REQUESTS: &[FaultKind] = &[
    Throttled,
    ErrorBefore,
    ErrorAfter,
    ResponseDropped,
    TimeOut,
    Hang,
    Panic,
    KilledBefore,
    KilledAfter,
];
const INVOCATIONS: &[FaultKind] = &[
    NotInvoked,
    FunctionTimeOut,
    Redelivered,
    RedeliveredInPart,
    RedeliveredOutOfOrder,
    BadResponse,
];
/// Faults of a request of several statements.
const STATEMENTS: &[FaultKind] = &[StatementsThrottled, StatementsApplied, Rejected];

/// Points of requests of the functions, operators and readers. Some are more frequent.
const POINTS: [Point; 12] = [
    Point::Bump,
    Point::Bump,
    Point::Put,
    Point::Put,
    Point::Invoke,
    Point::Invoke,
    Point::InvokeWriter,
    Point::Operator,
    Point::Read,
    Point::InlinePut,
    Point::Poll,
    Point::BatchGet,
];
/// Points of undos.
const OF_UNDOS: [Point; 6] = [
    Point::Operator,
    Point::Operator,
    Point::OperatorWrite,
    Point::OperatorWrite,
    Point::Put,
    Point::Bump,
];
/// Points of an attached table.
const OF_ATTACHED: [Point; 6] = [
    Point::Put,
    Point::Put,
    Point::Invoke,
    Point::Invoke,
    Point::Read,
    Point::Poll,
];

impl Fault {
    pub(super) fn draw(rng: &mut Rng, scale: &Scale) -> Self {
        let on = pick(rng, &POINTS);
        let kinds: &[FaultKind] = match on {
            Point::Invoke => INVOCATIONS,
            Point::InvokeWriter => &[NotInvoked, FunctionTimeOut, Redelivered],
            Point::Poll => &[Throttled, ErrorBefore, IteratorExpired],
            Point::BatchGet => &[Unprocessed, Throttled],
            Point::Bump if rng.u8(..3) == 0 => &[TransactionConflict, Delayed],
            Point::Put if rng.u8(..3) == 0 => STATEMENTS,
            _ => REQUESTS,
        };
        let kind = pick(rng, kinds);
        let nth = match on {
            Point::BatchGet => rng.u32(..2),
            Point::Put if STATEMENTS.contains(&kind) => rng.u32(..4),
            _ if scale.is_hot => rng.u32(..200),
            _ => rng.u32(..30),
        };
        let times = match STATEMENTS.contains(&kind) {
            // Only a part of the requests have statements.
            true => 20,
            false => pick(rng, &[1, 1, 1, 2, 3, 8]),
        };
        Self { on, nth, times, kind }
    }

    /// Draws a fault of an attached table.
    pub(crate) fn draw_of_attached(rng: &mut Rng) -> Self {
        let on = pick(rng, &OF_ATTACHED);
        let kind = match on {
            Point::Put => pick(
                rng,
                &[REQUESTS, &[Delayed, StatementsThrottled, StatementsApplied]].concat(),
            ),
            // It names records of the batch only.
            Point::Invoke => pick(rng, &INVOCATIONS[..5]),
            Point::Read => pick(rng, REQUESTS),
            _ => pick(rng, &[Throttled, IteratorExpired]),
        };
        let (nth, times) = (rng.u32(..20), pick(rng, &[1, 1, 2, 3, 12]));
        Self { on, nth, times, kind }
    }

    /// Draws a fault of an undo, or of the functions beside it.
    pub(super) fn draw_of_undo(rng: &mut Rng) -> Self {
        let on = pick(rng, &OF_UNDOS);
        let (kind, nth) = match on {
            // Only a request that changes the table can be executed late.
            Point::OperatorWrite => (pick(rng, &[REQUESTS, &[Delayed]].concat()), rng.u32(..5)),
            Point::Operator => (pick(rng, REQUESTS), rng.u32(..60)),
            _ => (pick(rng, REQUESTS), rng.u32(..20)),
        };
        let times = pick(rng, &[1, 1, 1, 2, 3]);
        Self { on, nth, times, kind }
    }

    /// Lets records of an attached table fail while later ones of their items are stored, so that a redrive makes them late. Some have
    /// made their version before they fail. Late records were once discarded wrongly, and reported as never discarded.
    pub(super) fn draw_late_records(rng: &mut Rng) -> Vec<Self> {
        let count = rng.u8(2..6);
        let faults = (0..count).map(|_| {
            let on = pick(rng, &[Point::Put, Point::Invoke]);
            let kinds = match on {
                Point::Put => [KilledBefore, KilledAfter, Hang],
                _ => [FunctionTimeOut, Redelivered, RedeliveredInPart],
            };
            let (nth, times, kind) = (rng.u32(..12), rng.u32(1..4), pick(rng, &kinds));
            Self { on, nth, times, kind }
        });
        faults.collect()
    }
}
