//! Replays a scenario of the event source mapping in virtual time.
//!
//! `cargo run -p local --example replay_mapping -- FILE`

use std::{io, path::PathBuf, process::ExitCode};

use clap::Parser;
use local::mapping::replay::{InvalidScenario, ReplayError, Scenario, replay};
use shared::logging::chain;
use thiserror::Error;

/// Replays a scenario with the code of the event source mapping, in virtual time, and prints what the mapping did.
///
/// FILE contains JSON: settings of the mapping by their Lambda names, records, and how the function and the failure destination
/// behave. The output is one JSON object. Exit code 2: FILE is not valid, or the scenario never ends.
#[derive(Debug, Parser)]
#[command(name = "replay_mapping", after_help = EXAMPLE)]
struct Args {
    /// The scenario; docs/users.md describes it
    file: PathBuf,
}

const EXAMPLE: &str = r#"Example:
  {"settings": {"BatchSize": 4, "BisectBatchOnFunctionError": true, "MaximumRetryAttempts": 1},
   "records": [{}, {"bad": true}, {}, {}], "function": "raise", "destination": "s3"}"#;

#[derive(Debug, Error)]
enum Failure {
    #[error("cannot read {0}")]
    Read(PathBuf, #[source] io::Error),
    #[error("{0} is not valid")]
    Scenario(PathBuf, #[source] InvalidScenario),
    #[error(transparent)]
    Replay(#[from] ReplayError),
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

fn run(args: Args) -> Result<(), Failure> {
    let text = std::fs::read_to_string(&args.file).map_err(|error| Failure::Read(args.file.clone(), error))?;
    let scenario = Scenario::parse(&text).map_err(|error| Failure::Scenario(args.file, error))?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()?;
    let replayed = runtime.block_on(replay(&scenario))?;
    terminal::write_line(&mut io::stdout(), &serde_json::to_string(&replayed)?)?;
    Ok(())
}

fn main() -> ExitCode {
    match run(terminal::arguments()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = terminal::write_line(&mut io::stderr(), &format!("error: {}", chain(&error)));
            ExitCode::from(2)
        }
    }
}
