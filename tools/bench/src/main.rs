//! Benchmark of the functions: compares them with their peers in one run on one machine.
//!
//! `comparisons` lists the comparisons. `harness` is their common frame, `subject` finds the implementations to compare, `hosted` runs them behind
//! a Runtime API, `stub` and `tables` are their DynamoDB. `figure`, `report` and `plot` present the results. `run` adds them to the `results` of
//! earlier runs and to a `page` of the documentation, and `baseline` compares them with an earlier run.

mod args;
mod baseline;
mod certificate;
mod comparisons;
mod error;
mod events;
mod figure;
mod harness;
mod hosted;
mod limits;
mod machine;
mod origin;
mod output;
mod page;
mod plot;
mod process;
mod progress;
mod report;
mod results;
mod run;
mod seed;
mod stub;
mod subject;
mod tables;
mod workload;

use std::process::ExitCode;

use clap::Parser as _;

use crate::{args::Args, error::BenchError};

fn main() -> ExitCode {
    if let Some(binary) = local::function::requested() {
        return local::function::main(&binary);
    }
    let args = Args::parse();
    let outcome = tokio::runtime::Runtime::new()
        .map_err(BenchError::from)
        .and_then(|runtime| runtime.block_on(comparisons::run(&args)));
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::print_error(&format!("error: {}", shared::logging::chain(&error)));
            ExitCode::from(error.exit_code())
        }
    }
}
