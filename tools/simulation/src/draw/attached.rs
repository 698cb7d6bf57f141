//! Generates the changes of clients to an attached table.

use fastrand::Rng;

use crate::schedule::{ChangeKind, Fault, Step, StepKind};

const STATES: u8 = 3;
/// One schedule of this number has items at the size limit.
const LARGE: u8 = 12;

/// Draws changes, and the faults of stream-fn beside them.
pub(crate) fn draw(rng: &mut Rng) -> (Vec<Step>, Vec<Fault>) {
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
            _ if rng.u8(..4) == 0 => {
                rng.u8(..items);
                let kind = StepKind::SplitShard;
                return Step { at, source: 0, kind };
            }
            _ => ChangeKind::Put(state),
        };
        let item = rng.u8(..items);
        let kind = StepKind::Change { item, kind };
        Step { at, source: 0, kind }
    });
    let mut changes: Vec<_> = changes.collect();
    let faults = (0..rng.usize(0..=5)).map(|_| Fault::draw_of_attached(rng)).collect();
    if rng.u8(..LARGE) == 0 {
        let kinds = changes.iter_mut().filter_map(|step| match &mut step.kind {
            StepKind::Change { kind, .. } => Some(kind),
            _ => None,
        });
        let puts = kinds.filter(|kind| matches!(kind, ChangeKind::Put(_)));
        for kind in puts.take(3) {
            *kind = ChangeKind::Large(rng.u8(..STATES));
        }
    }
    (changes, faults)
}
