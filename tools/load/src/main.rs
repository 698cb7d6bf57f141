//! Runs the simulation of load, and compares it with `vzero plan`.

use std::{ffi::OsString, process::ExitCode};

use clap::Parser;
use load::{
    Parameters, Rate, Report,
    plan::{self, PlanError},
};
use serde_json::{Value, json};

/// Simulate the deployed system under load in virtual time, and compare the result with `vzero plan`.
///
/// The output is one JSON object. Exit codes: 0 success, 1 the plan differs (with --check-plan), 2 usage or other error.
#[derive(Debug, Parser)]
#[command(
    after_help = "Example: cargo run --release -p load -- --updates-per-second 10000 --partitions 1000 --zipf 0.8"
)]
struct Args {
    /// Simulated seconds, of which the first tenth is not counted
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(4..=100_000))]
    seconds: u64,
    /// Seed of the random numbers
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Raise the rate of updates linearly from zero, to find the limit that is reached first
    #[arg(long)]
    ramp: bool,
    /// Updates per second of all entities
    #[arg(long, default_value_t = 1_000.0, value_parser = positive)]
    updates_per_second: f64,
    /// Number of entities
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(1..=50_000_000))]
    entities: u32,
    /// Exponent of the Zipf distribution of the updates over the entities, 0 to 10; 0 is a uniform distribution
    #[arg(long, default_value_t = 0.0, value_parser = exponent)]
    zipf: f64,
    /// Size of a version item in bytes
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u64).range(1..=409_600))]
    item_bytes: u64,
    /// Partitions of each table, and shards of the stream
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    partitions: u32,
    /// History in a table of its own
    #[arg(long)]
    own_history: bool,
    /// Write units per second of a table: its quota
    #[arg(long, default_value_t = 40_000.0, value_parser = positive)]
    table_write_units: f64,
    /// Concurrent invocations of the account: its quota
    #[arg(long, default_value_t = 1_000)]
    account_concurrency: u32,
    /// `MaximumConcurrency` of the queue's mapping
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(2..=1_000))]
    queue_concurrency: u32,
    /// `BatchSize` of the queue's mapping
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    queue_batch_size: u32,
    /// Seconds until the queue delivers a failed message again: `VisibilityTimeout`
    #[arg(long, default_value_t = 180, value_parser = clap::value_parser!(u64).range(1..=43_200))]
    visibility_timeout: u64,
    /// `BatchSize` of the stream's mapping
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    batch_size: u32,
    /// `MaximumBatchingWindowInSeconds` of the stream's mapping
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=300))]
    batching_window: u64,
    /// `ParallelizationFactor`
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=10))]
    parallelization_factor: u32,
    /// Maximum retries of a record: `MaximumRetryAttempts` [default: no limit]
    #[arg(long)]
    max_retries: Option<u32>,
    /// `MaxAttempts` of a request
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=10))]
    max_attempts: u32,
    /// `MemorySize` of each function, in MB
    #[arg(long, default_value_t = 512, value_parser = clap::value_parser!(u32).range(128..=10_240))]
    memory: u32,
    /// Duration of a request to DynamoDB, in milliseconds
    #[arg(long, default_value_t = 5.0, value_parser = positive)]
    latency_ms: f64,
    /// Fail if a figure of the plan differs by more than 15 %, or if the limits that are reached differ
    #[arg(long)]
    check_plan: bool,
    /// The program `vzero` [default: beside this program]
    #[arg(long, value_name = "PATH")]
    vzero: Option<OsString>,
}

/// Accepted difference between a figure of the plan and the simulated one.
const TOLERANCE: f64 = 0.15;

fn positive(text: &str) -> Result<f64, String> {
    within(text, 0.001, 1e9)
}

fn exponent(text: &str) -> Result<f64, String> {
    within(text, 0.0, 10.0)
}

fn within(text: &str, min: f64, max: f64) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if (min..=max).contains(&number) => Ok(number),
        _ => Err(format!("not a number from {min} to {max}")),
    }
}

fn main() -> ExitCode {
    let args = Args::parse();
    match run(&args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            print_error(&error);
            ExitCode::from(2)
        }
    }
}

/// Returns `false` if the plan was checked and differs.
fn run(args: &Args) -> Result<bool, PlanError> {
    let mut parameters = parameters(args);
    let beside = || std::env::current_exe().map(|program| program.with_file_name("vzero").into_os_string());
    let program = match &args.vzero {
        Some(program) => program.clone(),
        None => beside().unwrap_or_else(|_| "vzero".into()),
    };
    let plan = plan::plan(&program, args.memory, &mut parameters)?;
    let report = load::run(&parameters);
    let exceeded = plan::exceeded(&plan, &parameters);
    let is_equal = equals(&plan, &report, &exceeded);
    print(&json!({
        "Simulation": report,
        "Figures": plan::figures(&plan, &report),
        "Limits": {"Plan": exceeded, "Simulation": names(&report)},
        "PlanDiffers": !is_equal,
    }))?;
    Ok(is_equal || !args.check_plan)
}

fn names(report: &Report) -> Vec<&'static str> {
    report.saturated.iter().map(|saturated| saturated.limit).collect()
}

/// Returns `true` if the same limits are reached, and all figures are close if there are none.
fn equals(plan: &Value, report: &Report, exceeded: &[String]) -> bool {
    let mut simulated = names(report);
    let mut planned: Vec<_> = exceeded.iter().map(String::as_str).collect();
    simulated.sort_unstable();
    planned.sort_unstable();
    let figures = plan::figures(plan, report);
    let are_close = figures.iter().all(|figure| figure.relative() <= TOLERANCE);
    planned == simulated && (are_close || !planned.is_empty())
}

fn parameters(args: &Args) -> Parameters {
    Parameters {
        seed: args.seed,
        seconds: args.seconds,
        rate: if args.ramp { Rate::Ramp } else { Rate::Steady },
        updates_per_second: args.updates_per_second,
        entities: args.entities,
        zipf: args.zipf,
        item_bytes: args.item_bytes,
        partitions: args.partitions,
        own_history: args.own_history,
        table_write_units: args.table_write_units,
        account_concurrency: args.account_concurrency,
        queue_concurrency: args.queue_concurrency,
        queue_batch_size: args.queue_batch_size as usize,
        visibility_timeout: args.visibility_timeout,
        batch_size: args.batch_size as usize,
        batching_window: args.batching_window,
        parallelization_factor: args.parallelization_factor,
        max_retries: args.max_retries,
        max_attempts: args.max_attempts,
        latency_ms: args.latency_ms,
        ..Parameters::default()
    }
}

#[allow(clippy::print_stdout, reason = "the result")]
fn print(result: &Value) -> Result<(), PlanError> {
    println!("{}", serde_json::to_string_pretty(result)?);
    Ok(())
}

#[allow(clippy::print_stderr, reason = "the error")]
fn print_error(error: &PlanError) {
    let source = std::error::Error::source(error).map(|source| format!(": {source}"));
    eprintln!("{error}{}", source.unwrap_or_default());
}
