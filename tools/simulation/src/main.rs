//! Runs both functions, the library and the event source mapping under randomly generated faults, in virtual time, and checks
//! the guarantees of `docs/reliability.md` after each run. A seed determines a run completely.

mod attached;
mod caller;
mod check;
mod clock;
mod connector;
mod database;
mod draw;
mod error;
mod evidence;
mod faults;
mod functions;
mod http;
mod mapping;
mod mutation;
mod operators;
mod queue;
mod requests;
mod runs;
mod schedule;
mod sealer;
mod setup;
mod stream;
mod undo;
mod world;

use std::{path::PathBuf, process::ExitCode};

use clap::Parser;
use shared::logging::chain;

use crate::{connector::InjectedPanic, mutation::Mutation};

/// A run allocates many small objects, on which the allocator of the C library spends a fourth of the time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Run the real code under generated faults, in virtual time, and check the guarantees.
///
/// The last line of the output is JSON. Exit codes: 0 no violation, 1 a guarantee is violated, 2 usage or other error.
#[derive(Debug, Parser)]
#[command(after_help = "Example: cargo run --release -p simulation -- --schedules 10000 --seed 1")]
struct Args {
    /// Number of schedules
    #[arg(long, default_value_t = 1000)]
    schedules: u64,
    /// Seed of the first schedule, or `random` to draw one; each further schedule has the next seed
    #[arg(long, default_value = "1", value_parser = parse_seed)]
    seed: u64,
    /// Disable a defense, to check that a guarantee is then violated
    #[arg(long, value_parser = mutation::parser())]
    mutate: Option<Mutation>,
    /// Print the names for --mutate, one per line
    #[arg(long, exclusive = true)]
    list_mutations: bool,
    /// Let the writes of each function fail for 5 s, 5 min, 5 h and 13 h, instead of running schedules
    #[arg(long, conflicts_with_all = ["schedules", "seed", "interleavings", "replay"])]
    outages: bool,
    /// Run this number of interleavings of writers on one entity, instead of schedules
    #[arg(long, value_name = "COUNT", conflicts_with_all = ["schedules", "replay"])]
    interleavings: Option<u64>,
    /// Run the schedule in this file, as printed after a violation, instead of generated ones
    #[arg(long, value_name = "FILE", conflicts_with_all = ["schedules", "seed"])]
    replay: Option<PathBuf>,
    /// Do not minimize the schedule of a violation, which takes hundreds of runs
    #[arg(long)]
    no_minimize: bool,
    /// Number of threads
    #[arg(long, default_value_t = std::thread::available_parallelism().map_or(1, usize::from))]
    threads: usize,
}

#[allow(clippy::print_stdout, reason = "the list, or the last line, is the result")]
fn main() -> ExitCode {
    let args = Args::parse();
    if args.list_mutations {
        mutation::all().for_each(|(name, _)| println!("{name}"));
        return ExitCode::SUCCESS;
    }
    silence_injected_panics();
    match runs::run(&args) {
        Err(error) => {
            print(&chain(&error));
            ExitCode::from(2)
        }
        Ok(figures) => {
            println!("{figures}");
            ExitCode::from(u8::from(figures["violations"] != 0))
        }
    }
}

/// Parses the seed of the first schedule. `random` draws one that JSON readers do not round.
fn parse_seed(text: &str) -> Result<u64, String> {
    match text {
        "random" => Ok(fastrand::u64(1..1 << 53)),
        _ => text
            .parse()
            .map_err(|_| "a seed is a whole number or `random`".to_owned()),
    }
}

#[allow(clippy::print_stderr, reason = "progress and explanations")]
fn print(text: &str) {
    eprintln!("{text}");
}

fn silence_injected_panics() {
    let default = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if !panic.payload().is::<InjectedPanic>() {
            default(panic);
        }
    }));
}
