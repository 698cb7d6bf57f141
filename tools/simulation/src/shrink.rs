//! A schedule that breaks a promise, made as small as it goes.

use crate::{
    check::{Violation, check},
    mutation::Mutation,
    schedule::Schedule,
    world,
};

/// The most runs that are spent on it.
const RUNS: usize = 400;

/// Takes faults and steps away as long as the same promise is broken.
pub(crate) fn shrink(schedule: &Schedule, mutation: Option<Mutation>, found: &[Violation]) -> (Schedule, Violation) {
    let mut smallest = schedule.clone();
    let mut violation = found.first().cloned().unwrap_or_else(|| Violation {
        promise: 0,
        what: String::new(),
    });
    let promise = violation.promise;
    let breaks = |schedule: &Schedule| -> Option<Violation> {
        let evidence = world::run(schedule, mutation).ok()?;
        check(schedule, &evidence)
            .into_iter()
            .find(|violation| violation.promise == promise)
    };
    let mut runs = 0;
    // Halves first, then quarters, down to one by one, until nothing more can go.
    let mut size = smallest.steps.len().max(smallest.faults.len()).max(1);
    while size > 0 && runs < RUNS {
        let mut smaller = false;
        for candidate in without(&smallest, size) {
            runs += 1;
            if let Some(broken) = breaks(&candidate) {
                (smallest, violation, smaller) = (candidate, broken, true);
                break;
            }
        }
        if !smaller {
            size /= 2;
        }
    }
    (smallest, violation)
}

/// The schedules that lack so many steps or faults in a row.
fn without(schedule: &Schedule, size: usize) -> Vec<Schedule> {
    let mut candidates = Vec::new();
    for start in (0..schedule.faults.len()).step_by(size) {
        let mut candidate = schedule.clone();
        candidate.faults.drain(start..(start + size).min(schedule.faults.len()));
        candidates.push(candidate);
    }
    for start in (0..schedule.steps.len()).step_by(size) {
        let mut candidate = schedule.clone();
        candidate.steps.drain(start..(start + size).min(schedule.steps.len()));
        candidates.push(candidate);
    }
    candidates
}
