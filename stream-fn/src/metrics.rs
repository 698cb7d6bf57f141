//! The metrics of an invocation.

#![cfg_attr(
    not(feature = "runtime"),
    allow(dead_code, reason = "the program initializes metrics")
)]

use std::time::Duration;

use shared::{
    clock::Deadline,
    domain::time::EpochMillis,
    metrics::{self, Tally, Unit},
};
use tokio::time::Instant;

use crate::{
    error::RecordFailure,
    response::{Outcome, ProcessedRecord},
};

const HISTORY_LAG: &str = "HistoryLag";
const BATCH_SIZE: &str = "BatchSize";
const TIME_LEFT: &str = "TimeLeft";

const UNITS: &[(&str, Unit)] = &[
    ("Recorded", Unit::Count),
    ("AlreadyRecorded", Unit::Count),
    ("Skipped", Unit::Count),
    ("Quarantined", Unit::Count),
    ("FailedNotQuarantined", Unit::Count),
    ("Purged", Unit::Count),
    ("Pruned", Unit::Count),
    ("FailedMalformed", Unit::Count),
    ("FailedConflict", Unit::Count),
    ("FailedRejected", Unit::Count),
    ("FailedNotReached", Unit::Count),
    ("FailedThrottled", Unit::Count),
    ("FailedInternal", Unit::Count),
    (HISTORY_LAG, Unit::Milliseconds),
    (BATCH_SIZE, Unit::Count),
    (TIME_LEFT, Unit::Milliseconds),
];

pub(crate) fn init() {
    metrics::init("stream-fn", UNITS);
}

/// Counts the outcomes of a batch at a time since 1970.
#[allow(clippy::cast_precision_loss, reason = "a batch has 10,000 records at most")]
pub(crate) fn batch(tally: &Tally, processed: &[ProcessedRecord], now: Duration, deadline: Deadline) {
    for record in processed {
        tally.count(name(&record.outcome));
        if let (Outcome::Recorded, Some(created)) = (&record.outcome, record.created) {
            tally.measure(HISTORY_LAG, lag(created, now.as_millis()));
        }
    }
    tally.measure(BATCH_SIZE, processed.len() as f64);
    let left = deadline.finish_by.saturating_duration_since(Instant::now());
    tally.measure(TIME_LEFT, left.as_secs_f64() * 1000.0);
}

fn name(outcome: &Outcome) -> &'static str {
    let Outcome::Failed { failure, .. } = outcome else {
        return outcome.name();
    };
    match failure {
        RecordFailure::NotQuarantined(_) => "FailedNotQuarantined",
        RecordFailure::Malformed(_) => "FailedMalformed",
        RecordFailure::Conflict => "FailedConflict",
        RecordFailure::Rejected(_) | RecordFailure::Omitted => "FailedRejected",
        RecordFailure::NotReached => "FailedNotReached",
        RecordFailure::Throttled(_) => "FailedThrottled",
        // Versions are compared with the latest item outside of invocations only.
        RecordFailure::Internal(_)
        | RecordFailure::Panicked(_)
        | RecordFailure::Contended
        | RecordFailure::AboveLatest(_)
        | RecordFailure::NoLatestItem => "FailedInternal",
    }
}

/// Returns the milliseconds since the latest item was written, at least 0: clocks differ.
#[allow(clippy::cast_precision_loss, reason = "milliseconds of a lag")]
fn lag(created: EpochMillis, now: u128) -> f64 {
    let now = i64::try_from(now).unwrap_or(i64::MAX);
    now.saturating_sub(created.get()).max(0) as f64
}
