//! Reduces a schedule that violates a guarantee to the faults and steps that are necessary for it.

use crate::{check::Violation, mutation::Mutation, schedule::Schedule, violations};

const MAX_RUNS: usize = 400;

/// Removes faults and steps as long as the same guarantee is violated.
pub(crate) fn shrink(schedule: &Schedule, mutation: Option<Mutation>, found: &[Violation]) -> (Schedule, Violation) {
    let mut smallest = schedule.clone();
    let mut violation = found.first().cloned().unwrap_or_else(|| Violation {
        guarantee: 0,
        description: String::new(),
    });
    let guarantee = violation.guarantee;
    let violates = |schedule: &Schedule| -> Option<Violation> {
        let (_, violations) = violations(schedule, mutation).ok()?;
        let mut violations = violations.into_iter();
        violations.find(|violation| violation.guarantee == guarantee)
    };
    let mut runs = 0;
    // Removes halves first, then quarters, down to single elements.
    let steps = smallest.steps.len().max(smallest.attached.len());
    let mut size = steps.max(smallest.faults.len()).max(1);
    while size > 0 && runs < MAX_RUNS {
        let mut smaller = false;
        for candidate in without(&smallest, size) {
            runs += 1;
            if let Some(found) = violates(&candidate) {
                (smallest, violation, smaller) = (candidate, found, true);
                break;
            }
        }
        if !smaller {
            size /= 2;
        }
    }
    (smallest, violation)
}

/// Returns the schedules with `size` consecutive steps or faults removed.
fn without(schedule: &Schedule, size: usize) -> Vec<Schedule> {
    let ranges = |length: usize| {
        (0..length)
            .step_by(size)
            .map(move |start| start..(start + size).min(length))
    };
    let mut candidates = Vec::new();
    let mut add = |remove: &dyn Fn(&mut Schedule)| {
        let mut candidate = schedule.clone();
        remove(&mut candidate);
        if candidate.attached.is_empty() == schedule.attached.is_empty() {
            candidates.push(candidate);
        }
    };
    for range in ranges(schedule.faults.len()) {
        add(&|schedule| drop(schedule.faults.drain(range.clone())));
    }
    for range in ranges(schedule.steps.len()) {
        add(&|schedule| drop(schedule.steps.drain(range.clone())));
    }
    for range in ranges(schedule.attached.len()) {
        add(&|schedule| drop(schedule.attached.drain(range.clone())));
    }
    candidates
}
