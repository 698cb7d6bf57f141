//! Situations of deleted entities, which are updated again.

use fastrand::Rng;
use serde_json::{Value, json};

use super::Situation;
use crate::{
    draw::{MINUTE, SECOND, pick},
    schedule::{Command, FaultKind, Origin, Point, Schedule, StepKind},
};

/// Number of updates that set attributes, and of attributes that each sets. One expression cannot remove them all.
const UPDATES: u64 = 4;
const ATTRIBUTES: u64 = 230;

pub(super) const SITUATIONS: &[Situation] = &[many_attributes, deleted_again];
pub(super) const FURTHER: &[Situation] = &[deleted_and_restored];

fn name(update: u64, attribute: u64) -> String {
    format!("N{update}-{attribute}")
}

/// An entity with more attributes than one request can remove is deleted, and updates follow. The removal is interrupted, or is executed
/// late.
fn many_attributes(rng: &mut Rng, schedule: &mut Schedule) {
    pick(rng, &["stream", "inline"]).clone_into(&mut schedule.settings.write_mode);
    schedule.settings.skip_unchanged = false;
    schedule.settings.window = Some(pick(rng, &[4, 10]));
    for update in 0..UPDATES {
        let members = (0..ATTRIBUTES).map(|attribute| (name(update, attribute), json!(attribute)));
        let update_index = schedule.update("e0", Origin::Client, Value::Object(members.collect()));
        schedule.step(SECOND * update, 0, StepKind::Direct { update: update_index });
    }
    let deleted = SECOND * UPDATES;
    let deletion = schedule.update("e0", Origin::Client, json!({"Deleted": true}));
    schedule.step(deleted, 0, StepKind::Direct { update: deletion });
    let kind = pick(
        rng,
        &[
            FaultKind::KilledBefore,
            FaultKind::KilledBefore,
            FaultKind::Delayed,
            FaultKind::Delayed,
            FaultKind::Hang,
            FaultKind::ResponseDropped,
        ],
    );
    // The first update creates the item with its second request, and the request before the removal is the deletion.
    let (on, nth) = (Point::Bump, u32::try_from(UPDATES).unwrap_or_default() + 2);
    schedule.fault(on, nth, 1, kind);
    // Each sets an attribute that the deletion ended.
    let after = deleted + rng.u64(..300);
    for source in 1..=2 {
        let attribute = name(rng.u64(..UPDATES), rng.u64(ATTRIBUTES - 5..ATTRIBUTES));
        schedule.direct(
            after + rng.u64(..3),
            source,
            "e0",
            Origin::Client,
            json!({attribute: format!("new-{source}")}),
        );
    }
    schedule.direct(after + 30 * SECOND, 1, "e0", Origin::Client, json!({"A": 1}));
}

/// An operator deletes an entity, perhaps with more attributes than one request can restore, and restores what it was. A prune and an update
/// can come between.
fn deleted_and_restored(rng: &mut Rng, schedule: &mut Schedule) {
    let settings = &mut schedule.settings;
    (settings.by_time, settings.skip_unchanged) = (false, false);
    settings.startup = 0;
    settings.maximum_retry_attempts = None;
    settings.maximum_record_age = None;
    let attributes = pick(rng, &[2, ATTRIBUTES, ATTRIBUTES]);
    for number in 0..2 {
        let members = (0..attributes).map(|attribute| (name(number, attribute), json!(attribute)));
        schedule.direct(
            SECOND * number,
            0,
            "e0",
            Origin::Client,
            Value::Object(members.collect()),
        );
    }
    let entity = || "e0".to_owned();
    let command = |schedule: &mut Schedule, at, command| schedule.command(at, 1, command);
    command(schedule, MINUTE, Command::Delete { entity: entity() });
    if rng.bool() {
        let (entity, keep) = (entity(), 1);
        command(schedule, 3 * MINUTE, Command::Prune { entity, keep });
        schedule.step(180 * MINUTE, 1, StepKind::Expire);
    }
    let at = 200 * MINUTE;
    command(schedule, at, Command::Undelete { entity: entity() });
    for source in 2..4 {
        let update = schedule.update("e0", Origin::Client, json!({"A": source}));
        // It reads the tombstone before the undelete puts the first attributes, and is sent after that.
        schedule.step(at + rng.u64(..50), source, StepKind::Direct { update });
    }
    let (entity, version) = (entity(), rng.u64(1..4));
    command(schedule, at + MINUTE, Command::Restore { entity, version });
    if rng.bool() {
        schedule.fault(
            Point::Operator,
            rng.u32(..20),
            1,
            pick(rng, &[FaultKind::KilledBefore, FaultKind::KilledAfter, FaultKind::Hang]),
        );
    }
}

/// Deletions and updates of an entity, from several senders.
fn deleted_again(rng: &mut Rng, schedule: &mut Schedule) {
    let senders = 3;
    for number in 0..12 {
        let members = match rng.u8(..3) {
            0 => json!({"Deleted": true}),
            1 => json!({"Deleted": true, "B": number}),
            _ => json!({(pick(rng, &["A", "B", "C"])): number}),
        };
        let update = schedule.update("e0", pick(rng, &[Origin::Client, Origin::TimedClient]), members);
        let at = 50 * rng.u64(..8);
        schedule.step(at, rng.u8(..senders), StepKind::Direct { update });
    }
}
