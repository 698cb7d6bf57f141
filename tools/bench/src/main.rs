//! Benchmark of the functions: compares them with their peers in one run on one machine.
//!
//! `comparisons` lists the comparisons. `harness` is their common frame, `subject` finds the implementations to compare, `hosted` runs them behind
//! a Runtime API, `stub` is their DynamoDB, `floor` what its requests cost. A comparison returns figures (`figure`). `run` adds them to those of earlier runs, and writes them as
//! tables (`report`) and into a `page` of the documentation. `baseline` compares them with earlier runs.

mod args;
mod baseline;
mod certificate;
mod comparisons;
mod error;
mod events;
mod figure;
mod floor;
mod harness;
mod hosted;
mod limits;
mod origin;
mod page;
mod report;
mod run;
mod stub;
mod subject;

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

use clap::Parser as _;

use crate::{args::Args, error::BenchError};

fn main() -> ExitCode {
    if let Some(binary) = local::function::requested() {
        return local::function::main(&binary);
    }
    if let Some(role) = floor::requested() {
        return floor::main(role);
    }
    let args = Args::parse();
    let outcome = tokio::runtime::Runtime::new()
        .map_err(BenchError::from)
        .and_then(|runtime| runtime.block_on(run::run(&args)));
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            print_error(&format!("error: {}", shared::logging::chain(&error)));
            ExitCode::from(error.exit_code())
        }
    }
}

/// Prints the progress, or a note. A closed stream is no error.
fn print_error(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

fn print(text: &str) {
    let _ = writeln!(io::stdout(), "{text}");
}
