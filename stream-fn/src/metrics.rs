//! What an invocation reports.

use shared::{
    clock::{self, Deadline},
    domain::time::EpochMillis,
    dynamodb::record_version::RecordOutcome,
    metrics::{self, Tally, Unit},
};
use tokio::time::Instant;

use crate::{Done, error::RecordFailure};

const HISTORY_LAG: &str = "HistoryLag";
const BATCH_SIZE: &str = "BatchSize";
const TIME_LEFT: &str = "TimeLeft";

/// All that stream-fn reports, and in what unit.
const UNITS: &[(&str, Unit)] = &[
    ("Recorded", Unit::Count),
    ("AlreadyRecorded", Unit::Count),
    ("Skipped", Unit::Count),
    ("FailedMalformed", Unit::Count),
    ("FailedConflict", Unit::Count),
    ("FailedNotReached", Unit::Count),
    ("FailedThrottled", Unit::Count),
    ("FailedInternal", Unit::Count),
    (HISTORY_LAG, Unit::Milliseconds),
    (BATCH_SIZE, Unit::Count),
    (TIME_LEFT, Unit::Milliseconds),
];

/// Sets up the metrics of stream-fn.
pub(crate) fn init() {
    metrics::init("stream-fn", UNITS);
}

/// A batch that was worked off.
#[allow(clippy::cast_precision_loss, reason = "a batch has 10,000 records at most")]
pub(crate) fn batch(tally: &Tally, done: &[Done], deadline: Deadline) {
    let now = clock::since_epoch();
    for done in done {
        tally.count(name(done));
        if let (Ok(Some(RecordOutcome::Recorded)), Some(created)) = (&done.outcome, done.created) {
            tally.measure(HISTORY_LAG, lag(created, now.as_millis()));
        }
    }
    tally.measure(BATCH_SIZE, done.len() as f64);
    let left = deadline.finish_by.saturating_duration_since(Instant::now());
    tally.measure(TIME_LEFT, left.as_secs_f64() * 1000.0);
}

fn name(done: &Done) -> &'static str {
    match &done.outcome {
        Ok(Some(RecordOutcome::Recorded)) => "Recorded",
        Ok(Some(RecordOutcome::AlreadyRecorded)) => "AlreadyRecorded",
        Ok(None) => "Skipped",
        Ok(Some(RecordOutcome::Conflict)) => "FailedConflict",
        Err((_, failure)) => match failure {
            RecordFailure::Malformed(_) => "FailedMalformed",
            RecordFailure::Conflict => "FailedConflict",
            RecordFailure::NotReached => "FailedNotReached",
            RecordFailure::Throttled(_) => "FailedThrottled",
            RecordFailure::Internal(_) => "FailedInternal",
        },
    }
}

/// Milliseconds since the latest item was written. Clocks differ, so that it can seem to lie ahead.
#[allow(clippy::cast_precision_loss, reason = "milliseconds of a lag")]
fn lag(created: EpochMillis, now: u128) -> f64 {
    let now = i64::try_from(now).unwrap_or(i64::MAX);
    now.saturating_sub(created.get()).max(0) as f64
}
