//! The functions, measured side by side with their peers, in one run, on one machine.

mod args;
mod certificate;
mod comparisons;
mod dynamodb_local;
mod error;
mod events;
mod figure;
mod hosted;
mod machine;
mod plot;
mod process;
mod progress;
mod report;
mod stub;
mod subject;
mod table;

use std::process::ExitCode;

use clap::Parser as _;

use crate::{args::Args, error::BenchError};

fn main() -> ExitCode {
    if let Some(binary) = local::function::asked_for() {
        return local::function::main(&binary);
    }
    let args = Args::parse();
    let ended = tokio::runtime::Runtime::new()
        .map_err(BenchError::from)
        .and_then(|runtime| runtime.block_on(comparisons::run(&args)));
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            report::say(&format!("error: {}", shared::logging::chain(&error)));
            ExitCode::from(error.exit_code())
        }
    }
}
