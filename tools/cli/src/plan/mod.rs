//! `vzero admin plan`: the monthly cost of a rate of updates, with the capacity units, invocations and storage behind it.
//!
//! It sends no request, and needs neither a table nor credentials. The formulas are in `docs/scaling.md`. Data flows from the arguments to
//! `Units` (one update), then `Load` (a second), then the cost of a month with the price list. `attached` is the cost of a table
//! that other programs write.

#![allow(
    clippy::cast_precision_loss,
    reason = "rates, bytes and prices are estimates of a few digits"
)]

pub(crate) mod attached;
mod figures;
mod load;
mod month;
mod sealing;

use self::figures::{DAY_SECONDS, MAX_ITEM_BYTES, MONTH_SECONDS};
pub(crate) use self::load::{read_units, write_units};
use crate::{error::CliError, output::Output, write_options::Method};

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct PlanArgs {
    /// Updates per second of all entities, 0.001 to 1000000000
    #[arg(long, value_name = "R", value_parser = |text: &str| within(text, 0.001, 1e9))]
    updates_per_second: f64,
    /// Number of entities, 1 to 1000000000000
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000_000))]
    entities: u64,
    /// Size of a version item in bytes, with names, keys and `RequestId`
    #[arg(long, value_name = "B", value_parser = clap::value_parser!(u64).range(1..=MAX_ITEM_BYTES))]
    item_bytes: u64,
    /// Days of history that are stored; the cost includes pruning [default: the first month of a history, without pruning]
    #[arg(long, value_name = "DAYS", value_parser = |text: &str| within(text, 0.0, 36_500.0))]
    retention_days: Option<f64>,
    /// Table that stores history, that of latest items or a second one: `HistoryTable`
    #[arg(long, value_parser = ["same", "own"], default_value = "same")]
    history_table: String,
    /// Way of the updates to writer-fn: invocations, or one message of the queue for each
    #[arg(long, value_parser = ["direct", "queue"], default_value = "direct")]
    source: String,
    /// Publish metrics, with the alarms of tools/monitoring/template.yaml
    #[arg(long)]
    monitoring: bool,
    /// Index the versions by time: `TimeIndex`
    #[arg(long)]
    time_index: bool,
    /// Seal the versions in a log, which needs the index: tools/seal/template.yaml
    #[arg(long)]
    seal: bool,
    #[command(flatten)]
    method: Method,
}

pub(crate) const EXAMPLES: &str = "\
Examples:
  vzero admin plan --updates-per-second 1000 --entities 50000 --item-bytes 500
  vzero admin plan --updates-per-second 1000 --entities 50000 --item-bytes 500 --mode transaction --retention-days 90
  vzero admin plan --updates-per-second 1000 --entities 50000 --item-bytes 500 --history-table own

The command needs no table. --mode and --idempotency are the settings of the functions. docs/scaling.md explains the model.";

pub(crate) fn run(args: &PlanArgs, output: &Output) -> Result<(), CliError> {
    output.object(&month::plan(args))
}

/// Returns the cost of request units, in USD.
pub(crate) fn cost_of_units(read: f64, write: f64) -> f64 {
    let prices = month::Prices::read();
    (read * prices.of("ReadRequestUnits") + write * prices.of("WriteRequestUnits")) / 1e6
}

impl PlanArgs {
    fn has_own_history(&self) -> bool {
        self.history_table == "own"
    }

    /// Returns the write units of a version in the index.
    fn index_units(&self) -> f64 {
        f64::from(u8::from(self.time_index || self.seal))
    }

    /// Returns the average number of days whose versions are stored.
    fn stored_days(&self) -> f64 {
        self.retention_days.unwrap_or(MONTH_SECONDS / DAY_SECONDS / 2.0)
    }
}

/// Parses a number within bounds. NaN is not.
pub(crate) fn within(text: &str, min: f64, max: f64) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if (min..=max).contains(&number) => Ok(number),
        _ => Err(format!("not a number from {min} to {max}")),
    }
}
