//! Situations of deleted entities, which are updated again.

use fastrand::Rng;
use serde_json::{Value, json};

use crate::{
    draw::script::{MINUTE, SECOND, e0, pick},
    schedule::{Command, FaultKind, Origin, Point, Schedule, StepKind::Expire},
};

/// Number of updates that set attributes, and of attributes that each sets. One expression cannot remove them all.
const UPDATES: u64 = 4;
const ATTRIBUTES: u64 = 230;

fn name(update: u64, attribute: u64) -> String {
    format!("N{update}-{attribute}")
}

/// Adds an update in each second, with this number of attributes.
fn set_attributes(schedule: &mut Schedule, updates: u64, attributes: u64) {
    for update in 0..updates {
        let members = (0..attributes).map(|attribute| (name(update, attribute), json!(attribute)));
        let members = Value::Object(members.collect());
        schedule.direct(SECOND * update, 0, "e0", Origin::Client, members);
    }
}

/// An entity with more attributes than one request can remove is deleted, and updates follow. The removal is interrupted, or is executed
/// late.
pub(super) fn many_attributes(rng: &mut Rng, schedule: &mut Schedule) {
    schedule.settings.write_by_update(rng, &[4, 10]);
    schedule.settings.skip_unchanged = false;
    set_attributes(schedule, UPDATES, ATTRIBUTES);
    let deleted = SECOND * UPDATES;
    schedule.direct(deleted, 0, "e0", Origin::Client, json!({"Deleted": true}));
    let kinds = [
        FaultKind::KilledBefore,
        FaultKind::KilledBefore,
        FaultKind::Delayed,
        FaultKind::Delayed,
        FaultKind::Hang,
        FaultKind::ResponseDropped,
    ];
    // The first update creates the item with its second request, and the request before the removal is the deletion.
    let nth = u32::try_from(UPDATES).unwrap_or_default() + 2;
    schedule.fault(Point::Bump, nth, 1, pick(rng, &kinds));
    // Each sets an attribute that the deletion ended.
    let after = deleted + rng.u64(..300);
    for source in 1..=2 {
        let attribute = name(rng.u64(..UPDATES), rng.u64(ATTRIBUTES - 5..ATTRIBUTES));
        let members = json!({attribute: format!("new-{source}")});
        schedule.direct(after + rng.u64(..3), source, "e0", Origin::Client, members);
    }
    schedule.client(after + 30 * SECOND, 1, 1);
}

/// An operator deletes an entity, perhaps with more attributes than one request can restore, and restores what it was. A prune and an update
/// can come between.
pub(super) fn deleted_and_restored(rng: &mut Rng, schedule: &mut Schedule) {
    let settings = &mut schedule.settings;
    (settings.by_time, settings.skip_unchanged, settings.startup) = (false, false, 0);
    (settings.maximum_retry_attempts, settings.maximum_record_age) = (None, None);
    set_attributes(schedule, 2, pick(rng, &[2, ATTRIBUTES, ATTRIBUTES]));
    schedule.step(MINUTE, 1, Command::Delete(e0()));
    if rng.bool() {
        schedule.step(3 * MINUTE, 1, Command::Prune(e0(), 1));
        schedule.step(180 * MINUTE, 1, Expire);
    }
    let at = 200 * MINUTE;
    schedule.step(at, 1, Command::Undelete(e0()));
    for source in 2..4 {
        // It reads the tombstone before the undelete puts the first attributes, and is sent after that.
        schedule.client(at + rng.u64(..50), source, source);
    }
    schedule.step(at + MINUTE, 1, Command::Restore(e0(), rng.u64(1..4)));
    if rng.bool() {
        let kinds = [FaultKind::KilledBefore, FaultKind::KilledAfter, FaultKind::Hang];
        schedule.fault(Point::Operator, rng.u32(..20), 1, pick(rng, &kinds));
    }
}

/// Deletions and updates of an entity, from several senders.
pub(super) fn deleted_again(rng: &mut Rng, schedule: &mut Schedule) {
    for number in 0..12 {
        let members = match rng.u8(..3) {
            0 => json!({"Deleted": true}),
            1 => json!({"Deleted": true, "B": number}),
            _ => json!({(pick(rng, &["A", "B", "C"])): number}),
        };
        let origin = pick(rng, &[Origin::Client, Origin::TimedClient]);
        schedule.direct(50 * rng.u64(..8), rng.u8(..3), "e0", origin, members);
    }
}
