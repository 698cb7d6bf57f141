//! Numbers that a run counts.

use serde::Serialize;

use crate::{histogram::Histogram, table::Throttle};

/// Numbers since the end of the warm-up.
#[derive(Debug, Clone, Default)]
pub(crate) struct Counters {
    pub(crate) sent: u64,
    /// Updates that were applied to their latest item.
    pub(crate) accepted: u64,
    /// Versions that were stored.
    pub(crate) stored: u64,
    /// Write units of puts of versions that were already stored.
    pub(crate) repeated_units: f64,
    pub(crate) throttled: Throttled,
    pub(crate) writer: Invocations,
    pub(crate) stream: Invocations,
    /// Messages that failed and became visible again.
    pub(crate) returned: u64,
    pub(crate) dead_letters: u64,
    pub(crate) failed_records: u64,
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Throttled {
    pub(crate) partition: u64,
    pub(crate) table: u64,
}

impl Throttled {
    pub(crate) fn add(&mut self, throttle: Throttle) {
        match throttle {
            Throttle::Partition => self.partition += 1,
            Throttle::Table => self.table += 1,
        }
    }
}

/// Invocations of a function.
#[derive(Debug, Clone, Default)]
pub(crate) struct Invocations {
    pub(crate) count: u64,
    /// Messages or records.
    pub(crate) items: u64,
    /// Total duration in microseconds.
    pub(crate) micros: u64,
    pub(crate) max_concurrency: u32,
    /// Invocations that exceeded the concurrency of the account.
    pub(crate) throttled: u64,
}

/// Lag of history in one tenth of the run.
#[derive(Debug, Clone, Default)]
pub(crate) struct Period {
    pub(crate) lag: Histogram,
}

/// Numbers of the current second, from which saturated resources are recognized.
#[derive(Debug, Clone, Default)]
pub(crate) struct Second {
    pub(crate) throttled: Throttled,
    pub(crate) invoked: u64,
    pub(crate) not_invoked: u64,
    /// `true` if the queue had its maximum of in-flight messages.
    pub(crate) in_flight: bool,
    pub(crate) requests: u64,
}

/// A resource that was saturated in two consecutive seconds.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct Saturated {
    /// Name of the limit.
    pub limit: &'static str,
    /// The second in which it began.
    pub second: u64,
    /// The rate of updates at that time.
    pub updates_per_second: f64,
}

#[derive(Debug, Default)]
pub(crate) struct Saturation {
    /// Resources that were saturated in the last second.
    pub(crate) last: Vec<&'static str>,
    pub(crate) found: Vec<Saturated>,
}
