//! The metrics of an invocation.

#![cfg_attr(
    not(feature = "runtime"),
    allow(dead_code, reason = "the program initializes metrics")
)]

use std::time::Duration;

use shared::{
    clock::Deadline,
    domain::time::EpochMillis,
    logging::variant,
    metrics::{self, Tally, Unit},
};
use tokio::time::Instant;

use crate::{
    error::RecordFailure,
    response::{Outcome, ProcessedRecord},
};

const UNITS: &[(Unit, &str)] = &[
    (
        Unit::Count,
        "Recorded AlreadyRecorded Skipped Quarantined Purged Pruned BatchSize FailedNotQuarantined FailedMalformed \
         FailedConflict FailedRejected FailedNotReached FailedThrottled FailedInternal",
    ),
    (Unit::Milliseconds, "HistoryLag TimeLeft"),
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
            tally.measure("HistoryLag", lag(created, now.as_millis()));
        }
    }
    tally.measure("BatchSize", processed.len() as f64);
    let left = deadline.finish_by.saturating_duration_since(Instant::now());
    tally.measure("TimeLeft", left.as_secs_f64() * 1000.0);
}

fn name(outcome: &Outcome) -> String {
    let Outcome::Failed { failure, .. } = outcome else {
        return variant(outcome);
    };
    match failure {
        RecordFailure::Omitted => "FailedRejected".to_owned(),
        // Versions are compared with the latest item outside of invocations only.
        RecordFailure::Panicked(_)
        | RecordFailure::Contended
        | RecordFailure::AboveLatest(_)
        | RecordFailure::NoLatestItem => "FailedInternal".to_owned(),
        failure => format!("Failed{}", variant(failure)),
    }
}

/// Returns the milliseconds since the latest item was written, at least 0: clocks differ.
#[allow(clippy::cast_precision_loss, reason = "milliseconds of a lag")]
fn lag(created: EpochMillis, now: u128) -> f64 {
    let now = i64::try_from(now).unwrap_or(i64::MAX);
    now.saturating_sub(created.get()).max(0) as f64
}
