//! Seeded fault schedules over the real code of both functions, the library and the event source mapping, in virtual
//! time: do the promises hold?

mod check;
mod functions;
mod mutation;
mod partial;
mod schedule;
mod setup;
mod shrink;
mod surroundings;
mod upstream;
mod wire;
mod world;

use std::{
    collections::BTreeMap,
    io::IsTerminal as _,
    path::PathBuf,
    process::ExitCode,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use clap::{Parser, ValueEnum as _};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::json;

use crate::{
    check::{Violation, check},
    mutation::Mutation,
    schedule::Schedule,
    wire::{Asked, lock},
};

/// Seeded fault schedules over the real code, in virtual time.
///
/// Prints one line of JSON last. Exit codes: 0 all promises held, 1 one was broken, 2 usage.
#[derive(Debug, Parser)]
#[command(after_help = "Example: cargo run --release -p simulation -- --schedules 10000 --seed 1")]
struct Args {
    /// How many schedules
    #[arg(long, default_value_t = 1000)]
    schedules: u64,
    /// The seed of the first schedule; the next one has the next seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Switch a defence off, to see that it is missed
    #[arg(long, value_enum)]
    mutate: Option<Mutation>,
    /// Run this schedule, as a violation printed it, in place of drawn ones
    #[arg(long, value_name = "FILE", conflicts_with_all = ["schedules", "seed"])]
    replay: Option<PathBuf>,
    /// How many threads
    #[arg(long, default_value_t = std::thread::available_parallelism().map_or(1, usize::from))]
    threads: usize,
}

/// What was found so far.
#[derive(Default)]
struct Tally {
    schedules: u64,
    updates: u64,
    faults: BTreeMap<String, u64>,
    found: Option<(Schedule, Vec<Violation>)>,
    broken: Option<String>,
}

fn main() -> ExitCode {
    let args = Args::parse();
    silence_panics_that_were_asked_for();
    let replayed = match args.replay.as_deref().map(read).transpose() {
        Ok(replayed) => replayed,
        Err(error) => {
            say(&error);
            return ExitCode::from(2);
        }
    };
    let count = if replayed.is_some() { 1 } else { args.schedules };
    let progress = progress(count);
    let tally = Mutex::new(Tally::default());
    let (next, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for _ in 0..args.threads.max(1) {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= count {
                        break;
                    }
                    let schedule = match &replayed {
                        Some(schedule) => schedule.clone(),
                        None => Schedule::draw(args.seed.wrapping_add(index)),
                    };
                    if !one(schedule, args.mutate, &tally) {
                        stop.store(true, Ordering::Relaxed);
                    }
                    progress.inc(1);
                    if progress.is_hidden() && index % 500 == 499 {
                        say(&format!("{} of {count} schedules", index + 1));
                    }
                }
            });
        }
    });
    progress.finish_and_clear();
    conclude(&args, tally.into_inner().unwrap_or_default())
}

/// Runs one schedule. Whether to go on.
fn one(schedule: Schedule, mutation: Option<Mutation>, tally: &Mutex<Tally>) -> bool {
    let ran = world::run(&schedule, mutation);
    let mut tally = lock(tally);
    match ran {
        Err(broken) => {
            tally.broken = Some(broken.to_string());
            false
        }
        Ok(evidence) => {
            tally.schedules += 1;
            tally.updates += schedule.updates.len() as u64;
            for (name, count) in &evidence.fired {
                *tally.faults.entry(name.clone()).or_default() += count;
            }
            let violations = check(&schedule, &evidence);
            let held = violations.is_empty();
            // With several threads, the lowest seed is the one to tell.
            if !held && tally.found.as_ref().is_none_or(|(found, _)| schedule.seed < found.seed) {
                tally.found = Some((schedule, violations));
            }
            held
        }
    }
}

#[allow(clippy::print_stdout, reason = "the last line is the answer")]
fn conclude(args: &Args, tally: Tally) -> ExitCode {
    if let Some(broken) = tally.broken {
        say(&broken);
        return ExitCode::from(2);
    }
    let violations = tally.found.as_ref().map_or(0, |(_, violations)| violations.len());
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
    if violations == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Says which promise was broken, by which schedule, made as small as it goes.
fn explain(args: &Args, schedule: &Schedule, violations: &[Violation]) {
    for violation in violations.iter().take(5) {
        say(&format!("promise {} broken: {}", violation.promise, violation.what));
    }
    let mutate = match args.mutate.and_then(|mutation| mutation.to_possible_value()) {
        Some(mutation) => format!(" --mutate {}", mutation.get_name()),
        None => String::new(),
    };
    say(&format!("seed {}. To run it again:", schedule.seed));
    say(&format!(
        "  cargo run --release -p simulation -- --schedules 1 --seed {}{mutate}",
        schedule.seed
    ));
    let (small, violations) = shrink::shrink(schedule, args.mutate, violations);
    let text = serde_json::to_string_pretty(&small).unwrap_or_default();
    say(&format!(
        "Made as small as it goes, it breaks promise {}: {}",
        violations.promise, violations.what
    ));
    say(&text);
    let path = std::env::temp_dir().join(format!("schedule-{}.json", schedule.seed));
    if std::fs::write(&path, &text).is_ok() {
        say(&format!(
            "  cargo run --release -p simulation -- --replay {}{mutate}",
            path.display()
        ));
    }
}

fn read(path: &std::path::Path) -> Result<Schedule, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))
}

fn progress(count: u64) -> ProgressBar {
    let target = if std::io::stderr().is_terminal() {
        ProgressDrawTarget::stderr()
    } else {
        ProgressDrawTarget::hidden()
    };
    let bar = ProgressBar::with_draw_target(Some(count), target);
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} schedules, {per_sec}, {eta} left");
    bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

#[allow(clippy::print_stderr, reason = "progress and explanations")]
fn say(text: &str) {
    eprintln!("{text}");
}

fn silence_panics_that_were_asked_for() {
    let tell = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if !panic.payload().is::<Asked>() {
            tell(panic);
        }
    }));
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test, a panic is the message")]

    use super::*;

    #[test]
    fn the_same_seed_is_the_same_run() {
        for seed in 1..=20 {
            let schedule = Schedule::draw(seed);
            assert_eq!(schedule, Schedule::draw(seed));
            let runs = [(); 2].map(|()| {
                let mut evidence = world::run(&schedule, None).unwrap();
                for record in &mut evidence.stream {
                    // The database makes it up, and nobody goes by it.
                    record["eventID"].take();
                    // By the wall clock.
                    if let Some(expires) = record.pointer_mut("/dynamodb/NewImage/TTL") {
                        expires.take();
                    }
                }
                evidence
            });
            assert_eq!(runs[0].stream, runs[1].stream, "seed {seed}");
            assert_eq!(runs[0].told, runs[1].told, "seed {seed}");
            assert_eq!(runs[0].given_up.len(), runs[1].given_up.len(), "seed {seed}");
            assert_eq!(runs[0].fired, runs[1].fired, "seed {seed}");
            assert_eq!(check(&schedule, &runs[0]), [], "seed {seed}");
        }
    }

    #[test]
    fn a_schedule_that_breaks_a_promise_shrinks_and_can_be_run_again() {
        silence_panics_that_were_asked_for();
        let mutation = Some(Mutation::Condition);
        let broken = (1..100).find_map(|seed| {
            let schedule = Schedule::draw(seed);
            let violations = check(&schedule, &world::run(&schedule, mutation).unwrap());
            (!violations.is_empty()).then_some((schedule, violations))
        });
        let (schedule, violations) = broken.unwrap();
        let (small, violation) = shrink::shrink(&schedule, mutation, &violations);
        assert!(small.steps.len() + small.faults.len() < schedule.steps.len() + schedule.faults.len());
        let text = serde_json::to_string(&small).unwrap();
        let again: Schedule = serde_json::from_str(&text).unwrap();
        assert_eq!(again, small);
        let violations = check(&again, &world::run(&again, mutation).unwrap());
        assert!(violations.contains(&violation));
    }
}
