//! Situations of guards of operator commands.
//!
//! A fault lets a request of a command hang, so that it is sent again after its attempt timeout of 2 s. Its number is the position of the
//! request among all requests of commands.

use std::ops::Range;

use fastrand::Rng;
use serde_json::json;

use crate::{
    draw::script::{HOUR, MINUTE, SECOND, e0, pick},
    schedule::{
        Command, Edit, Origin, Schedule, Scope,
        StepKind::{self, Direct, Expire, StopMapping},
    },
};

/// Time from the marker of a purge to its last checks.
const PURGE: u64 = 90 * SECOND;

/// The records of an entity are in failure documents, which are redriven. Then its versions are pruned and expire, and the documents are
/// redriven again.
pub(super) fn redrive_after_prune(rng: &mut Rng, schedule: &mut Schedule) {
    discard(rng, schedule, 3..6);
    schedule.step(30 * SECOND, 1, Command::Redrive);
    schedule.some(rng, "e0", 2 * MINUTE, 1..3);
    schedule.step(4 * MINUTE, 1, Command::Prune(e0(), rng.u64(1..3)));
    schedule.step(3 * HOUR, 1, Expire);
    schedule.step(4 * HOUR, 1, Command::Redrive);
}

/// The records of an entity are in failure documents. It is purged, counts from 1 again, and the documents are redriven before the new
/// versions are stored.
pub(super) fn redrive_after_purge(rng: &mut Rng, schedule: &mut Schedule) {
    let failed = discard(rng, schedule, 1..4);
    schedule.step(30 * SECOND, 0, Command::Purge(e0()));
    schedule.step(45 * SECOND, 1, StopMapping(5 * MINUTE));
    schedule.some(rng, "e0", 140 * SECOND, failed..5);
    schedule.step(150 * SECOND, 1, Command::Redrive);
}

/// The records of an entity are in failure documents. Its latest item is deleted, and the documents are redriven, before or after it counts
/// from 1 again.
pub(super) fn redrive_after_deletion(rng: &mut Rng, schedule: &mut Schedule) {
    let failed = discard(rng, schedule, 2..5);
    schedule.edit(30 * SECOND, 0, Edit::Delete);
    schedule.some(rng, "e0", 40 * SECOND, 0..failed);
    schedule.step(5 * MINUTE, 1, Command::Redrive);
    schedule.some(rng, "e0", 6 * MINUTE, 1..2);
}

/// A latest item is restored, or raised above a version that an operator wrote. Then its updates are delivered again.
pub(super) fn duplicates_after_repair(rng: &mut Rng, schedule: &mut Schedule) {
    schedule.settings.window = Some(pick(rng, &[4, 10, 16]));
    // An older update is not applied, whatever its request id is.
    schedule.settings.by_time = false;
    let delivered = schedule.some(rng, "e0", 0, 2..5);
    // History has all versions.
    let (damage, repair) = match rng.bool() {
        true => (Edit::Delete, Command::Revive),
        false => (Edit::WriteVersion(1), Command::Repair),
    };
    schedule.edit(3 * MINUTE, 0, damage);
    schedule.step(6 * MINUTE, 0, repair);
    for update in delivered.into_iter().rev() {
        schedule.step(10 * MINUTE, 0, Direct(update));
    }
}

/// Two prunes of an entity at once keep different numbers of versions. The versions below the higher floor expire.
pub(super) fn two_prunes(rng: &mut Rng, schedule: &mut Schedule) {
    // The prunes of an entity seldom meet.
    for (name, minute) in [("e0", 3), ("e1", 4), ("e2", 5), ("e3", 6), ("e4", 7)] {
        let at = minute * MINUTE;
        schedule.some(rng, name, 0, 4..5);
        schedule.step(at, 0, Command::Prune(name.to_owned(), 1));
        let (at, keep) = (at + rng.u64(6..18), rng.u64(2..4));
        schedule.step(at, 0, Command::Prune(name.to_owned(), keep));
    }
    schedule.step(3 * HOUR, 0, Expire);
}

/// An entity is put on hold about when it is pruned or purged, and released later, in some.
pub(super) fn hold_while_removing(rng: &mut Rng, schedule: &mut Schedule) {
    schedule.some(rng, "e0", 0, 3..8);
    for minute in [3, 10] {
        let (is_prune, at) = (rng.bool(), minute * MINUTE);
        let (command, lasts) = match is_prune {
            true => (Command::Prune(e0(), rng.u64(1..3)), 100),
            false => (Command::Purge(e0()), PURGE + SECOND),
        };
        schedule.step(at, 0, command);
        schedule.step(at - 50 + rng.u64(..lasts), 0, Command::Hold(e0()));
        if rng.bool() {
            schedule.step(at + 5 * MINUTE, 0, Command::Release(e0()));
        }
        schedule.some(rng, "e0", at + 6 * MINUTE, 0..4);
    }
    schedule.step(3 * HOUR, 0, Expire);
}

/// Versions are pinned while a prune is about to mark them.
pub(super) fn pin_while_pruning(rng: &mut Rng, schedule: &mut Schedule) {
    schedule.some(rng, "e0", 0, 6..7);
    schedule.step(3 * MINUTE, 0, Command::Prune(e0(), 1));
    for version in 1..=5 {
        let at = 3 * MINUTE + 5 + 7 * version + rng.u64(..7);
        schedule.step(at, 0, Command::Pin(e0(), version));
    }
    if rng.bool() {
        schedule.step(3 * HOUR, 0, Expire);
    }
}

/// A version is pinned that the entity does not have: it will have it later, or it has expired, or it was purged.
pub(super) fn pin_of_missing_version(rng: &mut Rng, schedule: &mut Schedule) {
    let mut version = 1;
    let latest = schedule.some(rng, "e0", 0, 2..5).len() as u64;
    match rng.u8(..3) {
        0 => version = latest + rng.u64(1..4),
        1 => {
            schedule.step(3 * MINUTE, 0, Command::Prune(e0(), 1));
            schedule.step(3 * HOUR, 0, Expire);
        }
        _ => schedule.step(3 * MINUTE, 0, Command::Purge(e0())),
    }
    schedule.step(4 * HOUR, 0, Command::Pin(e0(), version));
    schedule.some(rng, "e0", 4 * HOUR + MINUTE, 0..4);
}

/// A backfill is about to count a latest item, which updates count first.
pub(super) fn adoption_while_updating(rng: &mut Rng, schedule: &mut Schedule) {
    schedule.edit(0, 0, Edit::Recreate);
    schedule.step(SECOND, 0, Command::Adopt);
    schedule.hang(rng.u32(6..8));
    schedule.some(rng, "e0", SECOND + 150, 2..4);
}

/// Entities are updated while a purge is about to delete their latest items.
pub(super) fn update_while_purging(rng: &mut Rng, schedule: &mut Schedule) {
    for number in 0..3 {
        let entity = format!("e{number}");
        schedule.direct(0, 0, &entity, Origin::Client, json!({"A": 1}));
        let at = 2 * MINUTE + number * SECOND;
        let update = at + PURGE + rng.u64(45..75);
        schedule.step(at, 0, Command::Purge(entity.clone()));
        schedule.direct(update, 1, &entity, Origin::Client, json!({"A": 2}));
    }
}

/// Two purges at once, and the first one writes its marker last. It has not seen the last version, whose record comes after both purges.
pub(super) fn two_purges(rng: &mut Rng, schedule: &mut Schedule) {
    schedule.settings.maximum_record_age = None;
    schedule.some(rng, "e0", 0, 1..4);
    schedule.step(3 * MINUTE, 0, StopMapping(10 * MINUTE));
    let at = 4 * MINUTE;
    schedule.step(at, 0, Command::Purge(e0()));
    schedule.hang(6);
    schedule.some(rng, "e0", at + 200, 1..3);
    schedule.step(at + SECOND, 0, Command::Purge(e0()));
}

/// A latest item is deleted after its first versions have expired, and updates follow.
pub(super) fn update_after_loss(rng: &mut Rng, schedule: &mut Schedule) {
    schedule.some(rng, "e0", 0, 3..6);
    schedule.step(3 * MINUTE, 0, Command::Prune(e0(), 1));
    schedule.step(3 * HOUR, 0, Expire);
    schedule.edit(4 * HOUR, 0, Edit::Delete);
    schedule.some(rng, "e0", 4 * HOUR + MINUTE, 1..4);
}

/// Latest items are restored twice at once. The first one writes some of them last, after updates have counted further.
pub(super) fn two_revives(rng: &mut Rng, schedule: &mut Schedule) {
    let entities = ["e0", "e1", "e2"];
    for entity in entities {
        schedule.some(rng, entity, 0, 1..3);
        schedule.step(3 * MINUTE, 0, StepKind::Edit(entity.to_owned(), Edit::Delete));
    }
    for at in [6 * MINUTE, 6 * MINUTE + rng.u64(..20)] {
        schedule.step(at, 0, Command::Revive);
    }
    // The repairs wait a minute before they plan.
    for entity in entities {
        schedule.some(rng, entity, 7 * MINUTE + SECOND, 15..20);
    }
    for _ in 0..3 {
        schedule.hang(rng.u32(76..94));
    }
}

/// Adds updates of the entity whose records end in failure documents, within 20 s, and returns their number.
fn discard(rng: &mut Rng, schedule: &mut Schedule, count: Range<u64>) -> u64 {
    let settings = &mut schedule.settings;
    // Otherwise the writer stores the versions.
    "stream".clone_into(&mut settings.write_mode);
    settings.startup = 0;
    settings.maximum_retry_attempts = Some(rng.u32(..3));
    schedule.window(0, 1, Scope::StreamFunctionDenied, 20 * SECOND);
    schedule.some(rng, "e0", 100, count).len() as u64
}
