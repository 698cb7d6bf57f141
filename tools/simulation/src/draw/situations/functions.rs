//! Situations of guards of the functions.

use fastrand::Rng;
use serde_json::json;

use super::Situation;
use crate::schedule::{Origin, Schedule, StepKind};

const DAY: u64 = 24 * 3_600_000;

pub(super) const SITUATIONS: &[Situation] = &[expired_tombstone];

/// An update follows a tombstone that has expired, and that DynamoDB has not deleted yet.
fn expired_tombstone(rng: &mut Rng, schedule: &mut Schedule) {
    schedule.settings.tombstone_days = Some(1);
    let deletion = schedule.update("e0", Origin::Client, json!({"A": 1, "Deleted": true}));
    schedule.step(0, 0, StepKind::Direct { update: deletion });
    let update = schedule.update("e0", Origin::Client, json!({"A": rng.u8(..4)}));
    schedule.step(2 * DAY, 0, StepKind::Direct { update });
    schedule.step(2 * DAY + 5000, 0, StepKind::Expire);
}
