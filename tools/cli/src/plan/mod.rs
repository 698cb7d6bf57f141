//! `vzero plan`: what a rate of updates asks of each part of the system, which bound it meets first, and what a month
//! costs. Arithmetic alone: no table, no credentials, no network. Its formulas are in `docs/scaling.md`.

#![allow(
    clippy::cast_precision_loss,
    reason = "rates, bytes and prices are estimates of a few digits"
)]

mod cost;
mod figures;
mod limits;
mod model;
mod prices;
mod render;
#[cfg(test)]
mod tests;
mod units;

use std::path::PathBuf;

use shared::{domain::recent_requests::Window, dynamodb::write::Idempotency};

use crate::{error::CliError, output::Output, write_options::Method};
use cost::{Architecture, Cost};
use limits::limits;
use model::{Inputs, Load};
use prices::Prices;
use render::Plan;
use units::Writing;

#[derive(Debug, clap::Args)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag")]
pub(crate) struct PlanArgs {
    /// Updates a second, of all entities together, 0.001 to 1000000000
    #[arg(long, value_name = "R", value_parser = |text: &str| within(text, 0.001, 1e9), required_unless_present = "print_prices")]
    updates_per_second: Option<f64>,
    /// How many entities there are, 1 to 1000000000000
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000_000), required_unless_present = "print_prices")]
    entities: Option<u64>,
    /// Bytes of a version item, with names, keys and `RequestId`
    #[arg(long, value_name = "B", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000), required_unless_present = "print_prices")]
    item_bytes: Option<u64>,
    /// The part of the updates that the hottest entity gets, up to 1 [default: 1/N, evenly]
    #[arg(long, value_name = "SHARE", value_parser = |text: &str| within(text, 0.0, 1.0))]
    hottest_share: Option<f64>,
    /// How many days of history storage is counted for; where it is given, pruning them costs write units [default: 30]
    #[arg(long, value_name = "DAYS", value_parser = |text: &str| within(text, 0.0, 36_500.0))]
    retention_days: Option<f64>,
    /// Without stream-fn behind modes that write version items themselves
    #[arg(long)]
    no_stream_fn: bool,
    /// Records of an invocation of stream-fn at most: `BatchSize`
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    batch_size: u32,
    /// Seconds that stream-fn's mapping waits for a fuller batch: `MaximumBatchingWindowInSeconds`
    #[arg(long, value_name = "SECONDS", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=300))]
    batching_window: u32,
    /// Invocations of stream-fn at once for each shard: `ParallelizationFactor`
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=10))]
    parallelization_factor: u32,
    /// Messages of an invocation of writer-fn at most: `BatchSize` of the queue's mapping
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    queue_batch_size: u32,
    /// Invocations of writer-fn at once at most: `MaximumConcurrency`
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(2..=1_000))]
    queue_concurrency: u32,
    /// Memory of each function, in MB: `MemorySize`
    #[arg(long, value_name = "MB", default_value_t = 128, value_parser = clap::value_parser!(u32).range(128..=10_240))]
    memory: u32,
    /// The functions' instruction set
    #[arg(long, value_enum, default_value_t = Architecture::Arm64)]
    architecture: Architecture,
    /// Milliseconds that DynamoDB takes for a request
    #[arg(long, value_name = "MS", default_value_t = 5.0, value_parser = |text: &str| within(text, 0.01, 60_000.0))]
    latency_ms: f64,
    /// Prices that replace some or all of the compiled-in ones, as JSON
    #[arg(long, value_name = "FILE")]
    prices: Option<PathBuf>,
    /// Show the price list, and plan nothing
    #[arg(long)]
    print_prices: bool,
    #[command(flatten)]
    method: Method,
}

pub(crate) const EXAMPLES: &str = "\
Examples:
  vzero plan --updates-per-second 1000 --entities 50000 --item-bytes 500
  vzero plan --updates-per-second 1000 --entities 50000 --item-bytes 500 --hottest-share 0.5 --mode transaction
  vzero plan --print-prices > prices.json

It needs no table. --mode, --idempotency, --idempotency-window [default: 16] and --ledger-ttl-days are those of the
functions. The formulas are in docs/scaling.md.";

/// Plans, or shows the price list.
pub(crate) fn run(plan: &PlanArgs, output: &Output) -> Result<(), CliError> {
    let replacements = match &plan.prices {
        Some(path) => Some(
            std::fs::read_to_string(path).map_err(|error| CliError::usage(&format!("{}", path.display()), error))?,
        ),
        None => None,
    };
    let refused = |error| CliError::usage("the prices", error);
    let prices = Prices::read(replacements.as_deref()).map_err(refused)?;
    if plan.print_prices {
        return render::prices(&prices::merged(replacements.as_deref()).map_err(refused)?);
    }
    let inputs = inputs(plan)?;
    let load = Load::of(&inputs);
    let plan = Plan {
        limits: limits(&inputs, &load),
        cost: Cost::of(&load, plan.architecture, &prices),
        inputs,
        load,
    };
    render::plan(&plan, &prices, output)
}

fn inputs(plan: &PlanArgs) -> Result<Inputs, CliError> {
    let missing = || CliError::Usage("--updates-per-second, --entities and --item-bytes are needed".to_owned());
    let entities = plan.entities.ok_or_else(missing)?;
    let evenly = 1.0 / entities as f64;
    let hottest_share = plan.hottest_share.unwrap_or(evenly);
    if hottest_share < evenly {
        return Err(CliError::Usage(format!(
            "--hottest-share is less than 1/{entities}: the hottest entity gets no fewer updates than the average"
        )));
    }
    let idempotency = plan.method.idempotency(Window::default())?;
    Ok(Inputs {
        updates_per_second: plan.updates_per_second.ok_or_else(missing)?,
        entities,
        item_bytes: plan.item_bytes.ok_or_else(missing)?,
        writing: Writing {
            mode: plan.method.mode,
            idempotency,
            stream_behind: !plan.no_stream_fn,
            pruned: plan.retention_days.is_some(),
        },
        hottest_share,
        retention_days: plan.retention_days.unwrap_or(30.0),
        ledger_days: match idempotency {
            Idempotency::Ledger(retention) => retention.duration().as_secs_f64() / figures::DAY_SECONDS,
            Idempotency::Recent(_) => 0.0,
        },
        batch_size: plan.batch_size.into(),
        batching_window: plan.batching_window.into(),
        parallelization_factor: plan.parallelization_factor.into(),
        queue_batch_size: plan.queue_batch_size.into(),
        queue_concurrency: plan.queue_concurrency.into(),
        memory_mb: plan.memory.into(),
        latency_ms: plan.latency_ms,
    })
}

/// A number within bounds, which leaves out what is none.
fn within(text: &str, least: f64, most: f64) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if (least..=most).contains(&number) => Ok(number),
        _ => Err(format!("it is a number from {least} to {most}")),
    }
}
