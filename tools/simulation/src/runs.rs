//! Runs many schedules in threads, and explains the violation of one: it is reduced to the faults and steps that are necessary for it.

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use serde_json::{Value, json};

use crate::{
    Args,
    caller::lock,
    check::check,
    error::SimulationError,
    evidence::{Evidence, Violation},
    mutation::{self, Mutation},
    print,
    schedule::Schedule,
    world,
};

/// Maximum number of runs that minimize a schedule.
const MAX_RUNS: usize = 400;

#[derive(Default)]
struct Tally {
    schedules: u64,
    updates: usize,
    versions: usize,
    faults: BTreeMap<String, u64>,
    found: Option<(Schedule, Vec<Violation>)>,
    error: Option<SimulationError>,
}

type Checked = (Evidence, Vec<Violation>);

/// Runs one schedule, and checks it.
fn run_one(schedule: &Schedule, mutation: Option<Mutation>) -> Result<Checked, SimulationError> {
    let mut evidence = world::run(schedule, mutation)?;
    let violations = check(schedule, &mut evidence);
    Ok((evidence, violations))
}

/// Runs the schedules that the options choose.
pub(crate) fn run(args: &Args) -> Result<Value, SimulationError> {
    let chosen = match &args.replay {
        Some(path) => vec![read(path)?],
        None if args.outages => Schedule::outages()?,
        None => Vec::new(),
    };
    let (name, drawn): (_, fn(u64) -> Schedule) = match args.interleavings {
        Some(_) => ("interleavings", Schedule::draw_interleaving),
        None if args.outages => ("outages", Schedule::draw),
        None => ("schedules", Schedule::draw),
    };
    let count = match chosen.len() {
        0 => args.interleavings.unwrap_or(args.schedules),
        count => count as u64,
    };
    if chosen.is_empty() {
        // Also a run that is stopped can be repeated.
        print(&format!("{name} with the seeds from {}", args.seed));
    }
    let tally = Mutex::new(Tally::default());
    in_threads(args.threads, count, |index| {
        let draw = || drawn(args.seed.wrapping_add(index));
        let schedule = usize::try_from(index).ok().and_then(|index| chosen.get(index).cloned());
        let schedule = schedule.unwrap_or_else(draw);
        let checked = run_one(&schedule, args.mutate);
        let goes_on = lock(&tally).add(schedule, checked);
        if index % 500 == 499 {
            print(&format!("{} of {count} {name}", index + 1));
        }
        goes_on
    });
    let tally = tally.into_inner().unwrap_or_default();
    if let Some(error) = tally.error {
        return Err(error);
    }
    args.mutate
        .map_or(Ok(()), |mutation| mutation::verdict(mutation, tally.schedules))?;
    if let Some((schedule, violations)) = &tally.found {
        explain(args, name, schedule, violations);
    }
    let (seed, violations) = tally
        .found
        .map_or((args.seed, 0), |(schedule, found)| (schedule.seed, found.len()));
    Ok(json!({
        name: tally.schedules, "updates": tally.updates, "versions": tally.versions, "faults": tally.faults,
        "violations": violations, "seed": seed,
    }))
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

impl Tally {
    /// Adds a schedule. Returns `true` if the next one is run.
    fn add(&mut self, schedule: Schedule, checked: Result<Checked, SimulationError>) -> bool {
        let (evidence, violations) = match checked {
            Ok(checked) => checked,
            Err(error) => {
                self.error = Some(error);
                return false;
            }
        };
        self.schedules += 1;
        self.updates += match schedule.settings.attached {
            true => schedule.steps.len(),
            false => schedule.updates.len(),
        };
        self.versions += evidence.versions();
        for (name, count) in evidence.faults {
            *self.faults.entry(name).or_default() += count;
        }
        let is_lowest = self.found.as_ref().is_none_or(|(found, _)| schedule.seed < found.seed);
        // With several threads, the violation of the lowest seed is reported.
        if !violations.is_empty() && is_lowest {
            self.found = Some((schedule, violations));
        }
        self.found.is_none()
    }
}

/// Prints the violations, the commands that reproduce them, and a minimized schedule.
fn explain(args: &Args, name: &str, schedule: &Schedule, violations: &[Violation]) {
    for violation in violations.iter().take(5) {
        print(&violation.to_string());
    }
    let mutate = args.mutate.map(|mutation| format!(" --mutate {mutation}"));
    let mutate = mutate.unwrap_or_default();
    let (seed, command) = (schedule.seed, "  cargo run --release -p simulation --");
    print(&format!("seed {seed}; to reproduce:"));
    let which = if args.outages {
        String::new()
    } else {
        format!(" 1 --seed {seed}")
    };
    print(&format!("{command} --{name}{which}{mutate}"));
    let Some(first) = violations.first().filter(|_| !args.no_minimize) else {
        return;
    };
    let (small, Violation { guarantee, description }) = shrink(schedule, first, args.mutate);
    let text = serde_json::to_string_pretty(&small).unwrap_or_default();
    print(&format!(
        "minimized schedule, which violates guarantee {guarantee}: {description}"
    ));
    print(&text);
    let path = std::env::temp_dir().join(format!("schedule-{seed}.json"));
    if fs::write(&path, &text).is_ok() {
        print(&format!("{command} --replay {}{mutate}", path.display()));
    }
}

/// Removes faults and steps as long as the same guarantee is violated.
fn shrink(schedule: &Schedule, found: &Violation, mutation: Option<Mutation>) -> (Schedule, Violation) {
    let (mut smallest, mut violation, mut runs) = (schedule.clone(), found.clone(), 0);
    // Removes halves first, then quarters, down to single elements.
    let mut size = smallest.steps.len().max(smallest.faults.len()).max(1);
    while size > 0 && runs < MAX_RUNS {
        let smaller = without(&smallest, size).find_map(|candidate| {
            runs += 1;
            let violations = run_one(&candidate, mutation).ok()?.1;
            let mut same = violations
                .into_iter()
                .filter(|other| other.guarantee == found.guarantee);
            same.next().map(|violation| (candidate, violation))
        });
        match smaller {
            Some(smaller) => (smallest, violation) = smaller,
            None => size /= 2,
        }
    }
    (smallest, violation)
}

/// Returns the schedules with `size` consecutive steps or faults removed.
fn without(schedule: &Schedule, size: usize) -> impl Iterator<Item = Schedule> {
    let (faults, steps) = (schedule.faults.len(), schedule.steps.len());
    let starts = |length: usize| (0..length).step_by(size);
    let faults = starts(faults).map(move |start| {
        let mut copy = schedule.clone();
        copy.faults.drain(start..(start + size).min(faults));
        copy
    });
    faults.chain(starts(steps).map(move |start| {
        let mut copy = schedule.clone();
        copy.steps.drain(start..(start + size).min(steps));
        copy
    }))
}

fn read(path: &Path) -> Result<Schedule, SimulationError> {
    let path = path.to_owned();
    match fs::read_to_string(&path) {
        Ok(text) => serde_json::from_str(&text).map_err(|source| SimulationError::ParseSchedule { path, source }),
        Err(source) => Err(SimulationError::ReadSchedule { path, source }),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test, a panic is the message")]

    use super::*;

    #[test]
    fn a_seed_determines_the_run() {
        let schedules = (1..=20)
            .map(Schedule::draw)
            .chain((1..=4).map(Schedule::draw_interleaving));
        for schedule in schedules {
            let seed = schedule.seed;
            // A large schedule takes minutes in a debug build.
            if schedule.updates.len() > 100 {
                continue;
            }
            let mut runs = [(); 2].map(|()| {
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
            assert_eq!(check(&schedule, &mut runs[0]), [], "seed {seed}");
        }
    }

    #[test]
    fn a_short_outage_loses_no_update() {
        for schedule in &Schedule::outages().unwrap()[..2] {
            let (evidence, violations) = run_one(schedule, None).unwrap();
            assert_eq!(violations, []);
            // The outage is in effect.
            assert!(evidence.faults["error-before"] > 0);
        }
    }

    #[test]
    fn a_violating_schedule_is_minimized_and_can_be_replayed() {
        crate::silence_injected_panics();
        let mutation = Some("condition");
        let violations_of = |schedule: &Schedule| run_one(schedule, mutation).unwrap().1;
        let found = (1..100).find_map(|seed| {
            let schedule = Schedule::draw(seed);
            let violations = violations_of(&schedule);
            (!violations.is_empty()).then_some((schedule, violations))
        });
        let (schedule, violations) = found.unwrap();
        let (small, violation) = shrink(&schedule, &violations[0], mutation);
        assert!(small.steps.len() + small.faults.len() < schedule.steps.len() + schedule.faults.len());
        let text = serde_json::to_string(&small).unwrap();
        let again: Schedule = serde_json::from_str(&text).unwrap();
        assert_eq!(again, small);
        assert!(violations_of(&again).contains(&violation));
    }

    #[test]
    fn interleavings_create_versions_and_apply_no_request_twice() {
        let checked = (1..=60).map(|seed| run_one(&Schedule::draw_interleaving(seed), None).unwrap());
        let (versions, violations): (Vec<_>, Vec<_>) = checked.map(|(run, found)| (run.versions(), found)).unzip();
        assert_eq!(violations.concat(), []);
        assert!(versions.iter().sum::<usize>() > 60 * 15);
    }
}
