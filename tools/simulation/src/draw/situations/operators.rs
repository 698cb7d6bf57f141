//! Situations of guards of operator commands.
//!
//! A fault lets a request of a command hang, so that it is sent again after its attempt timeout of 2 s. Its number is the position of the
//! request among all requests of commands.

use super::*;

/// Time from the marker of a purge to its last checks.
const PURGE: u64 = 90 * SECOND;

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
    schedule.step(30 * SECOND, 1, Command::Redrive);
    schedule.some(rng, "e0", 2 * MINUTE, 1..3);
    let (entity, keep) = (e0(), rng.u64(1..3));
    schedule.step(4 * MINUTE, 1, Command::Prune { entity, keep });
    schedule.step(3 * HOUR, 1, Expire);
    schedule.step(4 * HOUR, 1, Command::Redrive);
}

/// The records of an entity are in failure documents. It is purged, counts from 1 again, and the documents are redriven before the new
/// versions are stored.
fn redrive_after_purge(rng: &mut Rng, schedule: &mut Schedule) {
    let failed = discard(rng, schedule, 1..4);
    schedule.step(30 * SECOND, 0, Command::Purge { entity: e0() });
    schedule.step(45 * SECOND, 1, StopMapping { millis: 5 * MINUTE });
    schedule.some(rng, "e0", 140 * SECOND, failed..5);
    schedule.step(150 * SECOND, 1, Command::Redrive);
}

/// The records of an entity are in failure documents. Its latest item is deleted, and the documents are redriven, before or after it counts
/// from 1 again.
fn redrive_after_deletion(rng: &mut Rng, schedule: &mut Schedule) {
    let failed = discard(rng, schedule, 2..5);
    schedule.step(30 * SECOND, 0, deletion("e0"));
    schedule.some(rng, "e0", 40 * SECOND, 0..failed);
    schedule.step(5 * MINUTE, 1, Command::Redrive);
    schedule.some(rng, "e0", 6 * MINUTE, 1..2);
}

/// A latest item is restored, or raised above a version that an operator wrote. Then its updates are delivered again.
fn duplicates_after_repair(rng: &mut Rng, schedule: &mut Schedule) {
    schedule.settings.window = Some(pick(rng, &[4, 10, 16]));
    // An older update is not applied, whatever its request id is.
    schedule.settings.by_time = false;
    let delivered = schedule.some(rng, "e0", 0, 2..5);
    // History has all versions.
    let (entity, ahead) = (e0(), 1);
    let (damage, repair) = match rng.bool() {
        true => (deletion("e0"), Command::Revive),
        false => (WriteVersion { entity, ahead }, Command::Repair),
    };
    schedule.step(3 * MINUTE, 0, damage);
    schedule.step(6 * MINUTE, 0, repair);
    for update in delivered.into_iter().rev() {
        schedule.step(10 * MINUTE, 0, Direct { update });
    }
}

/// Two prunes of an entity at once keep different numbers of versions. The versions below the higher floor expire.
fn two_prunes(rng: &mut Rng, schedule: &mut Schedule) {
    // The prunes of an entity seldom meet.
    for (name, minute) in [("e0", 3), ("e1", 4), ("e2", 5), ("e3", 6), ("e4", 7)] {
        let (at, entity) = (minute * MINUTE, name.to_owned());
        schedule.some(rng, name, 0, 4..5);
        schedule.step(at, 0, Command::Prune { entity, keep: 1 });
        let (at, entity, keep) = (at + rng.u64(6..18), name.to_owned(), rng.u64(2..4));
        schedule.step(at, 0, Command::Prune { entity, keep });
    }
    schedule.step(3 * HOUR, 0, Expire);
}

/// Versions are pinned while a prune is about to mark them.
fn pin_while_pruning(rng: &mut Rng, schedule: &mut Schedule) {
    schedule.some(rng, "e0", 0, 6..7);
    let (entity, keep) = (e0(), 1);
    schedule.step(3 * MINUTE, 0, Command::Prune { entity, keep });
    for version in 1..=5 {
        let (at, entity) = (3 * MINUTE + 5 + 7 * version + rng.u64(..7), e0());
        schedule.step(at, 0, Command::Pin { entity, version });
    }
    if rng.bool() {
        schedule.step(3 * HOUR, 0, Expire);
    }
}

/// A version is pinned that the entity does not have: it will have it later, or it has expired, or it was purged.
fn pin_of_missing_version(rng: &mut Rng, schedule: &mut Schedule) {
    let mut version = 1;
    let latest = schedule.some(rng, "e0", 0, 2..5).len() as u64;
    match rng.u8(..3) {
        0 => version = latest + rng.u64(1..4),
        1 => {
            let (entity, keep) = (e0(), 1);
            schedule.step(3 * MINUTE, 0, Command::Prune { entity, keep });
            schedule.step(3 * HOUR, 0, Expire);
        }
        _ => schedule.step(3 * MINUTE, 0, Command::Purge { entity: e0() }),
    }
    let entity = e0();
    schedule.step(4 * HOUR, 0, Command::Pin { entity, version });
    schedule.some(rng, "e0", 4 * HOUR + MINUTE, 0..4);
}

/// A backfill is about to count a latest item, which updates count first.
fn adoption_while_updating(rng: &mut Rng, schedule: &mut Schedule) {
    let (entity, create) = (e0(), true);
    schedule.step(0, 0, DeleteLatest { entity, create });
    schedule.step(SECOND, 0, Command::Adopt);
    schedule.hang(rng.u32(6..8));
    schedule.some(rng, "e0", SECOND + 150, 2..4);
}

/// Entities are updated while a purge is about to delete their latest items.
fn update_while_purging(rng: &mut Rng, schedule: &mut Schedule) {
    for number in 0..3 {
        let entity = format!("e{number}");
        schedule.direct(0, 0, &entity, Origin::Client, json!({"A": 1}));
        let at = 2 * MINUTE + number * SECOND;
        let update = at + PURGE + rng.u64(45..75);
        schedule.step(at, 0, Command::Purge { entity: entity.clone() });
        schedule.direct(update, 1, &entity, Origin::Client, json!({"A": 2}));
    }
}

/// Two purges at once, and the first one writes its marker last. It has not seen the last version, whose record comes after both purges.
fn two_purges(rng: &mut Rng, schedule: &mut Schedule) {
    schedule.settings.maximum_record_age = None;
    schedule.some(rng, "e0", 0, 1..4);
    schedule.step(3 * MINUTE, 0, StopMapping { millis: 10 * MINUTE });
    let at = 4 * MINUTE;
    schedule.step(at, 0, Command::Purge { entity: e0() });
    schedule.hang(4);
    schedule.some(rng, "e0", at + 200, 1..3);
    schedule.step(at + SECOND, 0, Command::Purge { entity: e0() });
}

/// Latest items are restored twice at once. The first one writes some of them last, after updates have counted further.
fn two_revives(rng: &mut Rng, schedule: &mut Schedule) {
    let entities = ["e0", "e1", "e2"];
    for entity in entities {
        schedule.some(rng, entity, 0, 1..3);
        schedule.step(3 * MINUTE, 0, deletion(entity));
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

fn deletion(entity: &str) -> StepKind {
    let entity = entity.to_owned();
    DeleteLatest { entity, create: false }
}
