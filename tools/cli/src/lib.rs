//! `vzero`, the operator's command for versioned tables: arguments → library → output.
//!
//! Each command owns its arguments, in `commands`. The operations themselves are in `shared` and `operations`.

mod args;
mod changes;
mod commands;
mod completion;
mod confirmation;
mod connection;
mod error;
mod globals;
mod input;
mod next;
mod output;
mod pager;
mod parameter;
mod place;
mod plan;
mod progress;
mod role;
mod selector;
mod target;
mod times;
mod write_options;

use std::process::ExitCode;

use clap::CommandFactory as _;
use operations::{error::OperationError, tables};
use tokio::signal::unix::{SignalKind, signal};

use crate::{
    args::{Admin, Args, Command},
    commands::entity,
    error::CliError,
    output::{Format, Output},
    place::Place,
};

/// Runs the command.
pub fn main() -> ExitCode {
    completion::answer(Args::command);
    let args: Args = terminal::arguments();
    item_diff::alignment::identify_by(args.globals.identity.clone());
    next::set(&args.globals, || terminal::command(Args::command()));
    let verbose = args.globals.verbose;
    let output = Output::new(args.globals.output, args.globals.full);
    if args.command.only_shows() && !args.globals.no_pager && !output.is_json() {
        pager::prepare(&args.globals.pager);
    }
    let done = match tokio::runtime::Runtime::new() {
        Ok(runtime) => {
            if std::process::id() == 1 {
                runtime.spawn(end_on_signal());
            }
            runtime.block_on(run(args, &output))
        }
        Err(error) => Err(error.into()),
    };
    pager::close();
    match done {
        // The pager was closed before the end of the output.
        Err(CliError::Io(error)) if error.kind() == std::io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::print_error(&error, verbose);
            ExitCode::from(error.exit_code())
        }
    }
}

/// Ends the first process of a container, for which signals have no default action.
async fn end_on_signal() {
    if let Ok(mut terminate) = signal(SignalKind::terminate()) {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = tokio::signal::ctrl_c() => {}
        }
        std::process::exit(130);
    }
}

async fn run(Args { command, globals }: Args, output: &Output) -> Result<(), CliError> {
    match command.admin() {
        Some(Admin::Completions { shell }) => {
            return completion::script(*shell);
        }
        Some(Admin::Concepts) => return output::print(args::CONCEPTS),
        Some(Admin::Plan(plan)) => return plan::run(plan, output),
        Some(Admin::Verify(verify)) => return Box::pin(verify.run(&globals, output)).await,
        _ => {}
    }
    if globals.output.is_some_and(Format::is_of_snapshot) && !matches!(command, Command::Snapshot(_)) {
        return Err(CliError::Usage(
            "--output dynamodb-json and csv are for `vzero snapshot`".to_owned(),
        ));
    }
    let sdk = connection::sdk_config(&globals).await?;
    let mut place = Place::new(&globals, &sdk);
    let connection = connection::open(&globals, command.width(), command.is_paced(), sdk).await;
    let (connection, is_new) = connection.map_err(|error| place.explain(error))?;
    if connection.store.attached_table().is_some()
        && let Some(reason) = command.not_attached()
    {
        return Err(CliError::Usage(reason.to_owned()));
    }
    connection.table.clone_into(&mut place.table);
    place.history = connection.store.own_history().map(str::to_owned);
    let done = match &command {
        Command::Put(put) => put.run(&connection, output).await,
        Command::Restore(restore) => restore.run(&connection, output).await,
        Command::Undo(undo) => undo.run(&connection, output).await,
        Command::Undelete(undelete) => undelete.run(&connection, false, output).await,
        Command::Get(get) => get.run(&connection, output).await,
        Command::Log(log) => log.run(&connection, output).await,
        Command::Show(show) => show.show(&connection, output).await,
        Command::Diff(diff) => diff.run(&connection, output).await,
        Command::Snapshot(snapshot) => snapshot.run(&connection, output).await,
        Command::Blame(blame) => blame.run(&connection, output).await,
        Command::Attach(attach) => attach.run(&connection, &globals, output).await,
        Command::Console(console) => console.run(connection.clone(), output).await,
        Command::Admin(admin) | Command::WithoutAdmin(admin) => match admin {
            Admin::Delete(delete) => delete.run(&connection, true, output).await,
            Admin::Audit(audit) => audit.run(&connection, output).await,
            Admin::Lag(target) => entity::lag(target, &connection, output).await,
            Admin::Metadata(metadata) => metadata.run(&connection, output).await,
            Admin::Items(target) => entity::items(target, &connection, output).await,
            Admin::Table(table) => table.run(&connection, globals.version_digits, output).await,
            Admin::State(state) => state.run(&connection, output).await,
            Admin::Backfill(backfill) => backfill.run(&connection, output).await,
            Admin::Prune(prune) => prune.run(&connection, output).await,
            Admin::Pin(pin) => pin.run(&connection, output).await,
            Admin::Hold(hold) => hold.run(&connection, output).await,
            Admin::Purge(purge) => purge.run(&connection, output).await,
            Admin::Erase(erase) => Box::pin(erase.run(&connection, output)).await,
            Admin::Quarantine(quarantine) => quarantine.run(&connection, output).await,
            Admin::Redrive(redrive) => redrive.run(&connection, output).await,
            Admin::Repair(repair) => repair.run(&connection, output).await,
            Admin::Prove(prove) => Box::pin(prove.run(&connection, output)).await,
            Admin::Plan(_) | Admin::Verify(_) | Admin::Completions { .. } | Admin::Concepts => Ok(()),
        },
    };
    let done = match done {
        Err(CliError::Operation(OperationError::NoEntity(_))) if is_new => tables::check_new(&connection.store)
            .await
            .map_err(CliError::from)
            .and(done),
        done => done,
    };
    if globals.consumed_capacity {
        output::print_capacity(&connection.meter.take());
    }
    done.map_err(|error| place.explain(error))
}
