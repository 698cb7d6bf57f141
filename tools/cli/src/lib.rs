//! `vzero`, the operator's command for versioned tables. What it reads that others wrote is in [`failures`], pure parsers.

mod args;
mod audit;
mod backfill;
mod change;
mod checkpoint;
mod connection;
pub mod console;
mod error;
pub mod failures;
mod output;
mod plan;
mod progress;
mod prune;
mod reads;
mod redrive;
mod repair;
mod state;
mod writes;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser as _};

use crate::{
    args::{Args, Command},
    connection::Connection,
    error::CliError,
    output::Output,
};

/// Runs the command.
pub fn main() -> ExitCode {
    let args = Args::parse();
    let verbose = args.verbose;
    let done = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime.block_on(run(args)),
        Err(error) => Err(CliError::Usage(error.to_string())),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::say_error(&error, verbose);
            ExitCode::from(error.exit_code())
        }
    }
}

async fn run(args: Args) -> Result<(), CliError> {
    if let Command::Completions { shell } = args.command {
        clap_complete::generate(shell, &mut Args::command(), "vzero", &mut std::io::stdout());
        return Ok(());
    }
    let output = Output::new(args.output);
    if let Command::Plan(plan) = &args.command {
        return plan::run(&args, plan, &output);
    }
    let connection = Connection::open(&args).await?;
    let done = match &args.command {
        Command::Put(put) => writes::put(&connection, &args, put, &output).await,
        Command::Restore(restore) => writes::restore(&connection, &args, restore, &output).await,
        Command::Delete(delete) => writes::set_deleted(&connection, &args, delete, true, &output).await,
        Command::Undelete(undelete) => writes::set_deleted(&connection, &args, undelete, false, &output).await,
        Command::Get(get) => reads::get(&connection, get, &output).await,
        Command::History(history) => reads::history(&connection, history, &output).await,
        Command::Diff(diff) => reads::diff(&connection, diff, &output).await,
        Command::Lag { id } => reads::lag(&connection, id, &output).await,
        Command::Metadata(metadata) => writes::metadata(&connection, metadata, &output).await,
        Command::State(state) => state::run(&connection, args.time.as_deref(), state, &output).await,
        Command::Backfill(backfill) => backfill::run(&connection, &args, backfill, &output).await,
        Command::Prune(prune) => prune::prune(&connection, prune, &output).await,
        Command::Pin(pin) => prune::pin(&connection, pin, &output).await,
        Command::Purge(purge) => prune::purge(&connection, purge, &output).await,
        Command::Audit(audit) => audit::run(&connection, audit, &output).await,
        Command::Redrive(args) => redrive::run(&connection, args, &output).await,
        Command::Repair(args) => repair::run(&connection, args, &output).await,
        Command::Console(console) => console::run(connection.clone(), &args, console, &output).await,
        Command::Plan(_) | Command::Completions { .. } => Ok(()),
    };
    if args.consumed_capacity {
        output::say_capacity(&connection.meter.take());
    }
    done
}
