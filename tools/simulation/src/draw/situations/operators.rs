//! Situations of guards of operator commands.
//!
//! A fault lets a request of a command hang, so that it is sent again after its attempt timeout of 2 s. Its number is the position of the
//! request among all requests of commands.

use std::ops::Range;

use fastrand::Rng;
use serde_json::json;

use super::Situation;
use crate::{
    draw::{HOUR, MINUTE, SECOND, pick},
    schedule::{Command, FaultKind, Origin, Point, Schedule, StepKind},
    windows::Scope,
};

/// Time from the marker of a purge to its last checks.
const PURGE: u64 = 90 * SECOND;
const ENTITY: &str = "e0";

pub(super) const SITUATIONS: &[Situation] = &[
    redrive_after_purge,
    redrive_after_deletion,
    duplicates_after_repair,
    two_prunes,
    pin_while_pruning,
    pin_of_missing_version,
    adoption_while_updating,
    update_while_purging,
    two_purges,
    two_revives,
];

pub(super) const PRUNED: &[Situation] = &[redrive_after_prune];

/// The records of an entity are in failure documents, which are redriven. Then its versions are pruned and expire, and the documents are
/// redriven again.
fn redrive_after_prune(rng: &mut Rng, schedule: &mut Schedule) {
    discard(rng, schedule, 3..6);
    schedule.command(30 * SECOND, 1, Command::Redrive);
    updates(rng, schedule, 2 * MINUTE, 1..3);
    let (entity, keep) = (entity(), rng.u64(1..3));
    schedule.command(4 * MINUTE, 1, Command::Prune { entity, keep });
    schedule.step(3 * HOUR, 1, StepKind::Expire);
    schedule.command(4 * HOUR, 1, Command::Redrive);
}

/// The records of an entity are in failure documents. It is purged, counts from 1 again, and the documents are redriven before the new
/// versions are stored.
fn redrive_after_purge(rng: &mut Rng, schedule: &mut Schedule) {
    let failed = discard(rng, schedule, 1..4);
    schedule.command(30 * SECOND, 0, Command::Purge { entity: entity() });
    schedule.step(45 * SECOND, 1, StepKind::StopMapping { millis: 5 * MINUTE });
    updates(rng, schedule, 140 * SECOND, failed..5);
    schedule.command(150 * SECOND, 1, Command::Redrive);
}

/// The records of an entity are in failure documents. Its latest item is deleted, and the documents are redriven, before or after it counts
/// from 1 again.
fn redrive_after_deletion(rng: &mut Rng, schedule: &mut Schedule) {
    let failed = discard(rng, schedule, 2..5);
    schedule.step(30 * SECOND, 0, deletion(ENTITY));
    updates(rng, schedule, 40 * SECOND, 0..failed);
    schedule.command(5 * MINUTE, 1, Command::Redrive);
    updates(rng, schedule, 6 * MINUTE, 1..2);
}

/// A latest item is restored, or raised above a version that an operator wrote. Then its updates are delivered again.
fn duplicates_after_repair(rng: &mut Rng, schedule: &mut Schedule) {
    schedule.settings.window = Some(pick(rng, &[4, 10, 16]));
    // An older update is not applied, whatever its request id is.
    schedule.settings.by_time = false;
    let delivered = updates(rng, schedule, 0, 2..5);
    // History has all versions.
    let (damage, repair) = match rng.bool() {
        true => (deletion(ENTITY), Command::Revive),
        false => (
            StepKind::WriteVersion {
                entity: entity(),
                ahead: 1,
            },
            Command::Repair,
        ),
    };
    schedule.step(3 * MINUTE, 0, damage);
    schedule.command(6 * MINUTE, 0, repair);
    for update in delivered.into_iter().rev() {
        schedule.step(10 * MINUTE, 0, StepKind::Direct { update });
    }
}

/// Two prunes of an entity at once keep different numbers of versions. The versions below the higher floor expire.
fn two_prunes(rng: &mut Rng, schedule: &mut Schedule) {
    // The prunes of an entity seldom meet.
    for (entity, minute) in [("e0", 3), ("e1", 4), ("e2", 5), ("e3", 6), ("e4", 7)] {
        let at = minute * MINUTE;
        updates_of(entity, rng, schedule, 0, 4..5);
        let prune = |keep| {
            let entity = entity.to_owned();
            command(Command::Prune { entity, keep })
        };
        schedule.step(at, 0, prune(1));
        schedule.step(at + rng.u64(6..18), 0, prune(rng.u64(2..4)));
    }
    schedule.step(3 * HOUR, 0, StepKind::Expire);
}

/// Versions are pinned while a prune is about to mark them.
fn pin_while_pruning(rng: &mut Rng, schedule: &mut Schedule) {
    updates(rng, schedule, 0, 6..7);
    let keep = 1;
    schedule.command(3 * MINUTE, 0, Command::Prune { entity: entity(), keep });
    for version in 1..=5 {
        schedule.step(3 * MINUTE + 5 + 7 * version + rng.u64(..7), 0, pin(version));
    }
    if rng.bool() {
        schedule.step(3 * HOUR, 0, StepKind::Expire);
    }
}

/// A version is pinned that the entity does not have: it will have it later, or it has expired, or it was purged.
fn pin_of_missing_version(rng: &mut Rng, schedule: &mut Schedule) {
    let latest = updates(rng, schedule, 0, 2..5).len() as u64;
    let version = match rng.u8(..3) {
        0 => latest + rng.u64(1..4),
        1 => {
            let prune = Command::Prune {
                entity: entity(),
                keep: 1,
            };
            schedule.command(3 * MINUTE, 0, prune);
            schedule.step(3 * HOUR, 0, StepKind::Expire);
            1
        }
        _ => {
            schedule.command(3 * MINUTE, 0, Command::Purge { entity: entity() });
            1
        }
    };
    schedule.step(4 * HOUR, 0, pin(version));
    updates(rng, schedule, 4 * HOUR + MINUTE, 0..4);
}

/// A backfill is about to count a latest item, which updates count first.
fn adoption_while_updating(rng: &mut Rng, schedule: &mut Schedule) {
    let latest = StepKind::DeleteLatest {
        entity: entity(),
        create: true,
    };
    schedule.step(0, 0, latest);
    schedule.command(SECOND, 0, Command::Adopt);
    hang(schedule, rng.u32(6..8));
    updates(rng, schedule, SECOND + 150, 2..4);
}

/// Entities are updated while a purge is about to delete their latest items.
fn update_while_purging(rng: &mut Rng, schedule: &mut Schedule) {
    for number in 0..3u64 {
        let entity = format!("e{number}");
        schedule.direct(0, 0, &entity, Origin::Client, json!({"A": 1}));
        let at = 2 * MINUTE + number * SECOND;
        schedule.command(at, 0, Command::Purge { entity: entity.clone() });
        schedule.direct(
            at + PURGE + rng.u64(45..75),
            1,
            &entity,
            Origin::Client,
            json!({"A": 2}),
        );
    }
}

/// Two purges at once, and the first one writes its marker last. It has not seen the last version, whose record comes after both purges.
fn two_purges(rng: &mut Rng, schedule: &mut Schedule) {
    schedule.settings.maximum_record_age = None;
    updates(rng, schedule, 0, 1..4);
    schedule.step(3 * MINUTE, 0, StepKind::StopMapping { millis: 10 * MINUTE });
    let at = 4 * MINUTE;
    schedule.command(at, 0, Command::Purge { entity: entity() });
    hang(schedule, 4);
    updates(rng, schedule, at + 200, 1..3);
    schedule.command(at + SECOND, 0, Command::Purge { entity: entity() });
}

/// Latest items are restored twice at once. The first one writes some of them last, after updates have counted further.
fn two_revives(rng: &mut Rng, schedule: &mut Schedule) {
    let entities = ["e0", "e1", "e2"];
    for entity in entities {
        updates_of(entity, rng, schedule, 0, 1..3);
        schedule.step(3 * MINUTE, 0, deletion(entity));
    }
    for at in [6 * MINUTE, 6 * MINUTE + rng.u64(..20)] {
        schedule.command(at, 0, Command::Revive);
    }
    // The repairs wait a minute before they plan.
    for entity in entities {
        updates_of(entity, rng, schedule, 7 * MINUTE + SECOND, 15..20);
    }
    for _ in 0..3 {
        hang(schedule, rng.u32(76..94));
    }
}

/// Adds updates of the entity whose records end in failure documents, within 20 s, and returns their number.
fn discard(rng: &mut Rng, schedule: &mut Schedule, count: Range<usize>) -> usize {
    let settings = &mut schedule.settings;
    // Otherwise the writer stores the versions.
    "stream".clone_into(&mut settings.write_mode);
    settings.startup = 0;
    settings.maximum_retry_attempts = Some(rng.u32(..3));
    let scope = Scope::StreamFunctionDenied;
    let millis = 20 * SECOND;
    schedule.step(0, 1, StepKind::Window { scope, millis });
    updates(rng, schedule, 100, count).len()
}

/// Adds this number of updates of the entity, one after the other, and returns their indexes.
fn updates(rng: &mut Rng, schedule: &mut Schedule, from: u64, count: Range<usize>) -> Vec<usize> {
    updates_of(ENTITY, rng, schedule, from, count)
}

fn updates_of(entity: &str, rng: &mut Rng, schedule: &mut Schedule, from: u64, count: Range<usize>) -> Vec<usize> {
    let mut added = Vec::new();
    for index in 0..rng.u64(count.start as u64..count.end as u64) {
        let origin = pick(rng, &[Origin::Client, Origin::TimedClient]);
        let number = schedule.updates.len();
        added.push(schedule.direct(from + 50 * index, 0, entity, origin, json!({"A": number})));
    }
    added
}

/// Lets the request of an operator with this number hang.
fn hang(schedule: &mut Schedule, nth: u32) {
    schedule.fault(Point::Operator, nth, 1, FaultKind::Hang);
}

fn pin(version: u64) -> StepKind {
    let entity = entity();
    command(Command::Pin { entity, version })
}

fn deletion(entity: &str) -> StepKind {
    let entity = entity.to_owned();
    StepKind::DeleteLatest { entity, create: false }
}

fn command(command: Command) -> StepKind {
    StepKind::Command(command)
}

fn entity() -> String {
    ENTITY.to_owned()
}
