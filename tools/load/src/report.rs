//! Result of a run, as it is printed in JSON.

#![allow(clippy::cast_precision_loss, reason = "counts and times are below 2^52")]

use serde::Serialize;

use crate::{
    counters::{Invocations, Period, Saturated},
    world::World,
};

/// Figures of a run, without its warm-up, per second unless the name states another unit.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct Report {
    /// Updates that were sent to the queue.
    pub updates_sent: f64,
    /// Updates that were applied to their latest item.
    pub updates_accepted: f64,
    /// Versions that were stored.
    pub versions_stored: f64,
    /// Write units of the table of latest items.
    pub write_units: f64,
    /// Write units of the hottest partition of that table.
    pub hottest_partition: f64,
    /// Write units of the history table, 0 without one.
    pub history_write_units: f64,
    /// Write units of the hottest partition of the history table.
    pub hottest_history_partition: f64,
    /// Write units of versions that were already stored.
    pub repeated_write_units: f64,
    /// Requests that their partition throttled.
    pub throttled_by_partition: f64,
    /// Requests that their table throttled.
    pub throttled_by_table: f64,
    /// Invocations of writer-fn.
    pub writer_function: FunctionReport,
    /// Invocations of stream-fn.
    pub stream_function: FunctionReport,
    /// Messages that failed, and are delivered again after the visibility timeout.
    pub messages_returned: f64,
    /// Messages in the dead-letter queue, in total.
    pub dead_letters: u64,
    /// Records in the on-failure destination, in total.
    pub failed_records: u64,
    /// Messages in the queue.
    pub queue: Backlog,
    /// Versions that are not stored.
    pub history: Backlog,
    /// Time from an update of v0 to its version, in tenths of the run.
    pub lag_seconds: Vec<Lag>,
    /// Saturated resources, the first one first.
    pub saturated: Vec<Saturated>,
}

/// Figures of a function, per second unless the name states another unit.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct FunctionReport {
    /// Invocations.
    pub invocations: f64,
    /// Average number of messages or records.
    pub batch_size: f64,
    /// Average duration in milliseconds.
    pub duration_ms: f64,
    /// Average number of concurrent invocations.
    pub concurrency: f64,
    /// Maximum number of concurrent invocations.
    pub max_concurrency: u32,
    /// Invocations that exceeded the concurrency of the account.
    pub throttled: f64,
}

/// Number of waiting messages or versions.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct Backlog {
    /// At half of the run.
    pub half: u64,
    /// At the end.
    pub end: u64,
    /// `true` if it grew in the second half by more than 2 % of the updates.
    pub grows: bool,
}

/// Quantiles of the versions that were stored in a tenth of the run, in seconds.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "PascalCase")]
#[allow(missing_docs, reason = "quantiles")]
pub struct Lag {
    pub p50: f64,
    pub p99: f64,
    pub max: f64,
}

impl Report {
    pub(crate) fn of(world: &World) -> Self {
        let seconds = (world.p.seconds - world.warm_up()) as f64;
        let per_second = |count: u64| rounded(count as f64 / seconds);
        let counters = &world.counters;
        let ((latest, hottest), (history, hottest_history)) = (world.latest.consumed(), world.history_consumed());
        let units = |units: f64| rounded(units / seconds);
        Self {
            updates_sent: per_second(counters.sent),
            updates_accepted: per_second(counters.accepted),
            versions_stored: per_second(counters.stored),
            write_units: units(latest),
            hottest_partition: units(hottest),
            history_write_units: units(history),
            hottest_history_partition: units(hottest_history),
            repeated_write_units: units(counters.repeated_units),
            throttled_by_partition: per_second(counters.throttled.partition),
            throttled_by_table: per_second(counters.throttled.table),
            writer_function: FunctionReport::of(&counters.writer, seconds),
            stream_function: FunctionReport::of(&counters.stream, seconds),
            messages_returned: per_second(counters.returned),
            dead_letters: counters.dead_letters,
            failed_records: counters.failed_records,
            queue: Backlog::of(world, |(queue, _)| *queue),
            history: Backlog::of(world, |(_, history)| *history),
            lag_seconds: world.periods.iter().map(Lag::of).collect(),
            saturated: world.saturation.found.clone(),
        }
    }

    /// Returns `true` if this limit was reached.
    pub fn is_saturated(&self, limit: &str) -> bool {
        self.saturated.iter().any(|saturated| saturated.limit == limit)
    }
}

impl FunctionReport {
    fn of(invocations: &Invocations, seconds: f64) -> Self {
        let count = (invocations.count as f64).max(1.0);
        Self {
            invocations: rounded(invocations.count as f64 / seconds),
            batch_size: rounded(invocations.items as f64 / count),
            duration_ms: rounded(invocations.micros as f64 / count / 1e3),
            concurrency: rounded(invocations.micros as f64 / 1e6 / seconds),
            max_concurrency: invocations.max_concurrency,
            throttled: rounded(invocations.throttled as f64 / seconds),
        }
    }
}

impl Backlog {
    fn of(world: &World, part: impl Fn(&(u64, u64)) -> u64) -> Self {
        let backlogs = &world.backlogs;
        let (half, end) = (
            backlogs.get(backlogs.len() / 2).map_or(0, &part),
            backlogs.last().map_or(0, &part),
        );
        let updates = world.p.updates_per_second * world.p.seconds as f64 / 2.0;
        Self {
            half,
            end,
            grows: end.saturating_sub(half) as f64 > updates / 50.0,
        }
    }
}

impl Lag {
    fn of(period: &Period) -> Self {
        Self {
            p50: rounded(period.lag.quantile(0.5)),
            p99: rounded(period.lag.quantile(0.99)),
            max: rounded(period.lag.max()),
        }
    }
}

/// Rounds to four digits.
pub(crate) fn rounded(number: f64) -> f64 {
    format!("{number:.3e}").parse().unwrap_or(number)
}
