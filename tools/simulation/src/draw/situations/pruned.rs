//! Situations of records that arrive after their versions were pruned.

use fastrand::Rng;
use serde_json::json;

use super::Situation;
use crate::draw::pick;
use crate::{
    schedule::{Command, Origin, Schedule, StepKind},
    windows::Scope,
};

const SECOND: u64 = 1000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const ENTITY: &str = "e0";

pub(super) const SITUATIONS: &[Situation] = &[redrive_after_prune];

/// The records of an entity are in failure documents, which are redriven. Then its versions are pruned and expire, and the documents are
/// redriven again.
fn redrive_after_prune(rng: &mut Rng, schedule: &mut Schedule) {
    let settings = &mut schedule.settings;
    // Otherwise the writer stores the versions.
    "stream".clone_into(&mut settings.write_mode);
    settings.startup = 0;
    settings.maximum_retry_attempts = Some(rng.u32(..3));
    let scope = Scope::StreamFunctionDenied;
    schedule.step(
        0,
        1,
        StepKind::Window {
            scope,
            millis: 20 * SECOND,
        },
    );
    updates(rng, schedule, 100, 3..6);
    schedule.step(30 * SECOND, 1, StepKind::Command(Command::Redrive));
    updates(rng, schedule, 2 * MINUTE, 1..3);
    let prune = Command::Prune {
        entity: ENTITY.to_owned(),
        keep: rng.u64(1..3),
    };
    schedule.step(4 * MINUTE, 1, StepKind::Command(prune));
    schedule.step(3 * HOUR, 1, StepKind::Expire);
    schedule.step(4 * HOUR, 1, StepKind::Command(Command::Redrive));
}

fn updates(rng: &mut Rng, schedule: &mut Schedule, from: u64, count: std::ops::Range<u64>) {
    for index in 0..rng.u64(count) {
        let origin = pick(rng, &[Origin::Client, Origin::TimedClient]);
        let number = schedule.updates.len();
        let update = schedule.update(ENTITY, origin, json!({"A": number}));
        schedule.step(from + 50 * index, 0, StepKind::Direct { update });
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "in a test, a panic is the message")]
mod tests {
    use super::*;
    use crate::{mutation::Mutation, violations};

    #[test]
    fn a_pruned_version_is_not_stored_again_and_is_found_without_the_floor() {
        for own_history in [false, true] {
            let mut settings = Schedule::draw(1).settings;
            settings.own_history = own_history;
            let draw = |seed| {
                let mut rng = Rng::with_seed(seed);
                super::super::draw(&mut rng, redrive_after_prune, seed, settings.clone())
            };
            let found = |mutation| (1..4).any(|seed| !violations(&draw(seed), mutation).unwrap().1.is_empty());
            assert!(!found(None), "{own_history}");
            assert!(found(Some(Mutation::PrunedFloor)), "{own_history}");
        }
    }
}
