//! Reduces a schedule that violates a guarantee to the faults and steps that are necessary for it.

use crate::{check::Violation, schedule::Schedule};

const MAX_RUNS: usize = 400;

/// Removes faults and steps as long as the same guarantee is violated. `run` returns the violations of a schedule, `None` if it cannot be
/// run.
pub(crate) fn shrink(
    schedule: &Schedule,
    found: &[Violation],
    run: impl Fn(&Schedule) -> Option<Vec<Violation>>,
) -> (Schedule, Violation) {
    let mut smallest = schedule.clone();
    let mut violation = found.first().cloned().unwrap_or_else(|| Violation {
        guarantee: 0,
        description: String::new(),
    });
    let guarantee = violation.guarantee;
    let violates = |schedule: &Schedule| -> Option<Violation> {
        let mut violations = run(schedule)?.into_iter();
        violations.find(|violation| violation.guarantee == guarantee)
    };
    let mut runs = 0;
    // Removes halves first, then quarters, down to single elements.
    let mut size = smallest.steps.len().max(smallest.faults.len()).max(1);
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
    let copy = |change: &dyn Fn(&mut Schedule)| {
        let mut copy = schedule.clone();
        change(&mut copy);
        copy
    };
    let faults = ranges(schedule.faults.len()).map(|range| copy(&|copy| drop(copy.faults.drain(range.clone()))));
    let steps = ranges(schedule.steps.len()).map(|range| copy(&|copy| drop(copy.steps.drain(range.clone()))));
    faults.chain(steps).collect()
}
