//! Runs both functions, the library and the event source mapping under randomly generated faults, in virtual time, and checks
//! the guarantees of `docs/reliability.md` after each run. A seed determines a run completely.

mod attached;
mod caller;
mod check;
mod clock;
mod commands;
mod connector;
mod database;
mod deliveries;
mod draw;
mod error;
mod evidence;
mod faults;
mod functions;
mod http;
mod mapping;
mod mutation;
mod operators;
mod plan;
mod queue;
mod requests;
mod scenarios;
mod schedule;
mod setup;
mod shrink;
mod stream;
mod upstream;
mod windows;
mod world;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use clap::{Parser, ValueEnum as _};
use serde_json::json;
use shared::logging::chain;

use crate::{
    caller::lock,
    check::{Violation, check},
    connector::InjectedPanic,
    error::SimulationError,
    mutation::Mutation,
    schedule::Schedule,
};

/// A run allocates many small objects, on which the allocator of the C library spends a fourth of the time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Run the real code under generated faults, in virtual time, and check the guarantees.
///
/// The last line of the output is JSON. Exit codes: 0 no violation, 1 a guarantee is violated, 2 usage or other error.
#[derive(Debug, Parser)]
#[allow(clippy::struct_excessive_bools, reason = "each is an option")]
#[command(after_help = "Example: cargo run --release -p simulation -- --schedules 10000 --seed 1")]
struct Args {
    /// Number of schedules
    #[arg(long, default_value_t = 1000)]
    schedules: u64,
    /// Seed of the first schedule, or `random` to draw one; each further schedule has the next seed
    #[arg(long, default_value = "1", value_parser = parse_seed)]
    seed: u64,
    /// Disable a defense, to check that a guarantee is then violated
    #[arg(long, value_enum)]
    mutate: Option<Mutation>,
    /// Print the names for --mutate, one per line
    #[arg(long, exclusive = true)]
    list_mutations: bool,
    /// Print the names of the faults that the result counts, one per line
    #[arg(long, exclusive = true)]
    list_faults: bool,
    /// Let the writes of each function fail for 5 s, 5 min, 5 h and 13 h, instead of running schedules
    #[arg(long, exclusive = true)]
    outages: bool,
    /// Read this number of shards, instead of running schedules
    #[arg(long, value_name = "COUNT", exclusive = true, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    shards: Option<u64>,
    /// Run this number of interleavings of writers on one entity, instead of schedules
    #[arg(long, value_name = "COUNT", conflicts_with_all = ["schedules", "replay", "mutate"])]
    interleavings: Option<u64>,
    /// Run the schedule in this file, as printed after a violation, instead of generated ones
    #[arg(long, value_name = "FILE", conflicts_with_all = ["schedules", "seed"])]
    replay: Option<PathBuf>,
    /// Run all schedules, also after a violation, and print the first violation of each instead of a minimized schedule
    #[arg(long)]
    all: bool,
    /// Do not minimize the schedule of a violation, which takes hundreds of runs
    #[arg(long)]
    no_minimize: bool,
    /// Number of threads
    #[arg(long, default_value_t = std::thread::available_parallelism().map_or(1, usize::from))]
    threads: usize,
}

#[derive(Default)]
struct Tally {
    schedules: u64,
    updates: u64,
    /// Number of violations of all schedules, with `--all`.
    violations: usize,
    faults: BTreeMap<String, u64>,
    found: Option<(Schedule, Vec<Violation>)>,
    error: Option<SimulationError>,
}

fn main() -> ExitCode {
    let args = Args::parse();
    if args.list_mutations {
        return list(Mutation::value_variants().iter().map(|mutation| mutation.name()));
    }
    if args.list_faults {
        return list(faults::names());
    }
    if args.outages {
        return report_scenario(scenarios::outages::run(&scenarios::outages::SECONDS));
    }
    if let Some(shards) = args.shards {
        return report_scenario(scenarios::shards::run(shards));
    }
    if let Some(count) = args.interleavings {
        print(&format!("interleavings with the seeds from {}", args.seed));
        return report_scenario(scenarios::interleavings::run(args.seed, count, args.threads));
    }
    silence_injected_panics();
    let replayed = match args.replay.as_deref().map(read).transpose() {
        Ok(replayed) => replayed,
        Err(error) => return failed(&chain(&error)),
    };
    let count = if replayed.is_some() { 1 } else { args.schedules };
    if replayed.is_none() {
        // Also a run that is stopped can be repeated.
        print(&format!("schedules with the seeds from {}", args.seed));
    }
    let tally = Mutex::new(Tally::default());
    in_threads(args.threads, count, |index| {
        let schedule = match &replayed {
            Some(schedule) => schedule.clone(),
            None => Schedule::draw(args.seed.wrapping_add(index)),
        };
        let goes_on = run_one(schedule, &args, &tally);
        if index % 500 == 499 {
            print(&format!("{} of {count} schedules", index + 1));
        }
        goes_on
    });
    report(&args, tally.into_inner().unwrap_or_default())
}

/// Calls a function with the numbers below `count`, in threads, until it returns `false`.
pub(crate) fn in_threads(threads: usize, count: u64, run: impl Fn(u64) -> bool + Sync) {
    let (next, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= count {
                        break;
                    }
                    if !run(index) {
                        stop.store(true, Ordering::Relaxed);
                    }
                }
            });
        }
    });
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

/// Runs one schedule, and returns the faults that occurred and the violations of the guarantees.
pub(crate) fn violations(
    schedule: &Schedule,
    mutation: Option<Mutation>,
) -> Result<(BTreeMap<String, u64>, Vec<Violation>), SimulationError> {
    if !schedule.attached.is_empty() {
        return attached::run(schedule, mutation);
    }
    let evidence = world::run(schedule, mutation)?;
    let violations = check(schedule, &evidence);
    Ok((evidence.faults, violations))
}

/// Runs one schedule. Returns `true` if it violated no guarantee.
fn run_one(schedule: Schedule, args: &Args, tally: &Mutex<Tally>) -> bool {
    let ran = violations(&schedule, args.mutate);
    let mut tally = lock(tally);
    match ran {
        Err(error) => {
            tally.error = Some(error);
            false
        }
        Ok((faults, violations)) => {
            tally.schedules += 1;
            tally.updates += (schedule.updates.len() + schedule.attached.len()) as u64;
            for (name, count) in faults {
                *tally.faults.entry(name).or_default() += count;
            }
            let is_correct = violations.is_empty();
            if args.all {
                if let Some(Violation { guarantee, description }) = violations.first() {
                    print(&format!(
                        "seed {}: guarantee {guarantee} violated: {description}",
                        schedule.seed
                    ));
                }
                tally.violations += violations.len();
                return true;
            }
            // With several threads, the violation of the lowest seed is reported.
            if !is_correct && tally.found.as_ref().is_none_or(|(found, _)| schedule.seed < found.seed) {
                tally.found = Some((schedule, violations));
            }
            is_correct
        }
    }
}

#[allow(clippy::print_stdout, reason = "the last line is the result")]
fn report(args: &Args, tally: Tally) -> ExitCode {
    if let Some(error) = tally.error {
        return failed(&chain(&error));
    }
    if let Some(mutation) = args.mutate.filter(|mutation| mutation.changes() == 0) {
        return failed(&unchanged(mutation, tally.schedules));
    }
    let found = tally.found.as_ref().map_or(0, |(_, violations)| violations.len());
    let violations = found + tally.violations;
    if let Some((schedule, violations)) = &tally.found {
        explain(args, schedule, violations);
    }
    let seed = tally.found.as_ref().map_or(args.seed, |(schedule, _)| schedule.seed);
    println!(
        "{}",
        json!({
            "schedules": tally.schedules, "updates": tally.updates, "faults": tally.faults,
            "violations": violations, "seed": seed,
        })
    );
    ExitCode::from(u8::from(violations > 0))
}

#[allow(clippy::print_stdout, reason = "the last line is the result")]
fn report_scenario(outcome: Result<scenarios::Outcome, SimulationError>) -> ExitCode {
    match outcome {
        Err(error) => failed(&chain(&error)),
        Ok(outcome) => {
            for violation in &outcome.violations {
                print(violation);
            }
            println!("{}", outcome.figures);
            ExitCode::from(u8::from(!outcome.violations.is_empty()))
        }
    }
}

#[allow(clippy::print_stdout, reason = "the list is the result")]
fn list(names: impl IntoIterator<Item = String>) -> ExitCode {
    for name in names {
        println!("{name}");
    }
    ExitCode::SUCCESS
}

/// Prints an error, and returns the exit code of one.
fn failed(error: &str) -> ExitCode {
    print(error);
    ExitCode::from(2)
}

/// Returns the error of a mutation that changed nothing: its run shows nothing about the guard.
fn unchanged(mutation: Mutation, schedules: u64) -> String {
    let name = mutation.name();
    format!(
        "the mutation {name} changed nothing in {schedules} schedules: none of them uses the guard, or its expressions have changed"
    )
}

/// Prints the violations, the commands that reproduce them, and a minimized schedule.
fn explain(args: &Args, schedule: &Schedule, violations: &[Violation]) {
    for violation in violations.iter().take(5) {
        print(&format!(
            "guarantee {} violated: {}",
            violation.guarantee, violation.description
        ));
    }
    let mutate = args.mutate.map(|mutation| format!(" --mutate {}", mutation.name()));
    let mutate = mutate.unwrap_or_default();
    print(&format!("seed {}; to reproduce:", schedule.seed));
    print(&format!(
        "  cargo run --release -p simulation -- --schedules 1 --seed {}{mutate}",
        schedule.seed
    ));
    if args.no_minimize {
        return;
    }
    let (small, violation) = shrink::shrink(schedule, args.mutate, violations);
    let text = serde_json::to_string_pretty(&small).unwrap_or_default();
    print(&format!(
        "minimized schedule, which violates guarantee {}: {}",
        violation.guarantee, violation.description
    ));
    print(&text);
    let path = std::env::temp_dir().join(format!("schedule-{}.json", schedule.seed));
    if std::fs::write(&path, &text).is_ok() {
        print(&format!(
            "  cargo run --release -p simulation -- --replay {}{mutate}",
            path.display()
        ));
    }
}

fn read(path: &Path) -> Result<Schedule, SimulationError> {
    let path = path.to_owned();
    match std::fs::read_to_string(&path) {
        Ok(text) => serde_json::from_str(&text).map_err(|source| SimulationError::ParseSchedule { path, source }),
        Err(source) => Err(SimulationError::ReadSchedule { path, source }),
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test, a panic is the message")]

    use super::*;

    #[test]
    fn a_seed_determines_the_run() {
        for seed in 1..=20 {
            let schedule = Schedule::draw(seed);
            assert_eq!(schedule, Schedule::draw(seed));
            // A large schedule takes minutes in a debug build.
            if schedule.updates.len() > 100 {
                continue;
            }
            let runs = [(); 2].map(|()| {
                let mut evidence = world::run(&schedule, None).unwrap();
                for written in &mut evidence.stream {
                    // The database generates these ids randomly. A record in quarantine contains an `eventID`.
                    written.record["eventID"].take();
                    for name in ["Record", "TableId", "HistoryTableId"] {
                        if let Some(random) = written.record.pointer_mut(&format!("/dynamodb/NewImage/{name}")) {
                            random.take();
                        }
                    }
                }
                evidence
            });
            assert_eq!(runs[0].stream, runs[1].stream, "seed {seed}");
            assert_eq!(runs[0].answers, runs[1].answers, "seed {seed}");
            assert_eq!(runs[0].documents.len(), runs[1].documents.len(), "seed {seed}");
            assert_eq!(runs[0].faults, runs[1].faults, "seed {seed}");
            for name in runs[0].faults.keys() {
                assert!(faults::names().contains(name), "--list-faults lacks {name}");
            }
            assert_eq!(check(&schedule, &runs[0]), [], "seed {seed}");
        }
    }

    #[test]
    fn a_violating_schedule_is_minimized_and_can_be_replayed() {
        silence_injected_panics();
        let mutation = Some(Mutation::Condition);
        let found = (1..100).find_map(|seed| {
            let schedule = Schedule::draw(seed);
            let violations = check(&schedule, &world::run(&schedule, mutation).unwrap());
            (!violations.is_empty()).then_some((schedule, violations))
        });
        let (schedule, violations) = found.unwrap();
        let (small, violation) = shrink::shrink(&schedule, mutation, &violations);
        assert!(small.steps.len() + small.faults.len() < schedule.steps.len() + schedule.faults.len());
        let text = serde_json::to_string(&small).unwrap();
        let again: Schedule = serde_json::from_str(&text).unwrap();
        assert_eq!(again, small);
        let violations = check(&again, &world::run(&again, mutation).unwrap());
        assert!(violations.contains(&violation));
    }
}
