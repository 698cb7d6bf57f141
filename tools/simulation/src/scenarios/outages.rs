//! Outages of writes: those of stream-fn, or those of writer-fn, fail for seconds to hours, with the settings of the template.
//!
//! Each is a schedule: one update a minute arrives, in turn by a queue, asynchronously and directly. All guarantees are checked, as
//! after a schedule of faults.

use std::{collections::HashMap, time::Duration};

use serde_json::json;
use shared::{config::Idempotency, domain::keys::LATEST_KEY};

use super::{Outcome, Stack};
use crate::{
    check::check,
    error::SimulationError,
    evidence::Evidence,
    mapping::records_of,
    requests::text,
    schedule::{Origin, Schedule, Scope, Settings, StepKind},
    world,
};

/// Durations of the outages in seconds. The last one is longer than the maximum age of a record.
pub(crate) const SECONDS: [u64; 4] = [5, 300, 18_000, 46_800];
/// Seconds from the start until the outage. Updates arrive at full minutes.
const BEFORE: u64 = 119;
/// Seconds after an outage in which updates arrive.
const AFTER: u64 = 600;
const ENTITIES: u64 = 7;
/// Number of sources of the updates, so that none waits for another one.
const SOURCES: u64 = 250;

/// Runs all outages, each in a thread of its own.
pub(crate) fn run(seconds: &[u64]) -> Result<Outcome, SimulationError> {
    let stack = Stack::read()?;
    let functions = [
        ("stream-fn", Scope::StreamFunctionFails),
        ("writer-fn", Scope::WriterFails),
    ];
    let results: Vec<_> = std::thread::scope(|scope| {
        let mut runs = Vec::new();
        for lasts in seconds {
            for (name, fails) in &functions {
                runs.push(scope.spawn(|| outage(&stack, *lasts, name, fails)));
            }
        }
        let results = runs
            .into_iter()
            .map(|run| run.join().map_err(|_| SimulationError::Panicked)?);
        results.collect()
    });
    let (mut figures, mut violations) = (Vec::new(), Vec::new());
    for result in results {
        let outcome = result?;
        figures.push(outcome.figures);
        violations.extend(outcome.violations);
    }
    Ok(Outcome {
        figures: json!({"outages": figures, "violations": violations.len()}),
        violations,
    })
}

fn outage(stack: &Stack, lasts: u64, name: &str, fails: &Scope) -> Result<Outcome, SimulationError> {
    let schedule = schedule(stack, lasts, fails);
    let evidence = world::run(&schedule, None)?;
    let is_dead = |update: &&usize| schedule.updates[**update].origin != Origin::TimedClient;
    let dead_letters = evidence.given_up.iter().filter(is_dead).count();
    let documents = &evidence.documents;
    let violations = check(&schedule, &evidence).into_iter();
    Ok(Outcome {
        violations: violations
            .map(|violation| format!("{name}, {lasts} s: {violation}"))
            .collect(),
        figures: json!({
            "writes_fail_of": name,
            "for_seconds": lasts,
            "updates": schedule.updates.len(),
            "failed_invocations": evidence.failed_invocations,
            "history_late_by_seconds": latest_delay(&evidence),
            "documents": documents.len(),
            "versions_in_documents": documents.iter().map(|document| records_of(document).len()).sum::<usize>(),
            "dead_letters": dead_letters,
            "errors_to_callers": evidence.given_up.len() - dead_letters,
            "virtual_seconds": evidence.settled_after.as_secs(),
        }),
    })
}

/// Returns the schedule of an outage.
fn schedule(stack: &Stack, lasts: u64, fails: &Scope) -> Schedule {
    let (config, mapping) = (&stack.config, &stack.mapping);
    let settings = Settings {
        write_mode: format!("{:?}", config.write.mode).to_lowercase(),
        window: match config.write.idempotency {
            Idempotency::Recent(window) => u8::try_from(window.get()).ok(),
            Idempotency::Ledger => None,
        },
        skip_unchanged: config.write.skip_unchanged,
        digits: config.digits.get(),
        batch_size: mapping.batch_size,
        batching_window: mapping.batching_window.as_secs(),
        parallelization_factor: mapping.parallelization_factor,
        bisect: mapping.bisect_on_function_error,
        maximum_retry_attempts: mapping.maximum_retry_attempts,
        maximum_record_age: mapping.maximum_record_age.map(|age| age.as_secs()),
        shards: 1,
        queue_batch_size: 1,
        own_history: config.history.is_some(),
        clock_offsets: vec![0],
        ..Settings::default()
    };
    let mut schedule = Schedule {
        seed: 1,
        settings,
        ..Schedule::default()
    };
    for number in 0..=(BEFORE + lasts + AFTER) / 60 {
        let origin = [Origin::Message, Origin::Invocation, Origin::TimedClient];
        let origin = origin[usize::try_from(number % 3).unwrap_or_default()];
        let entity = format!("e{}", number % ENTITIES);
        let update = schedule.update(&entity, origin, json!({"Value": number}));
        let delivery = match origin {
            Origin::Message => StepKind::Sqs(vec![update]),
            Origin::Invocation => StepKind::Asynchronous(update),
            _ => StepKind::Direct(update),
        };
        let source = u8::try_from(number % SOURCES).unwrap_or_default();
        schedule.step(number * 60_000, source, delivery);
    }
    schedule.window(BEFORE * 1000, u8::MAX, fails.clone(), lasts * 1000);
    schedule
}

/// Returns the longest time in seconds from a version to its version item, of those that stream-fn stored.
fn latest_delay(evidence: &Evidence) -> u64 {
    let mut counted: HashMap<(&str, &str), Duration> = HashMap::new();
    let mut longest = Duration::ZERO;
    for written in &evidence.stream[..evidence.recovered_from] {
        let (entity, key, at) = (written.entity(), written.key(), written.by.at);
        if key == LATEST_KEY {
            counted.insert((entity, text(written.image(), "/Latest/N")), at);
        } else {
            let version = key.trim_start_matches(['v', '0']);
            let since = counted.get(&(entity, version)).copied().unwrap_or(at);
            longest = longest.max(at.saturating_sub(since));
        }
    }
    longest.as_secs() + u64::from(longest.subsec_nanos() > 0)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test, a panic is the message")]

    use serde_json::Value;

    use super::*;

    #[test]
    fn a_short_outage_loses_no_update() {
        let outcome = run(&[5]).unwrap();
        assert_eq!(outcome.violations, Vec::<String>::new());
        let figures = outcome.figures["outages"].as_array().unwrap();
        assert_eq!(figures.len(), 2);
        // The outage is in effect: without it, no invocation fails.
        let fails = |outage: &Value| outage["failed_invocations"].as_u64() > Some(0);
        assert!(figures.iter().all(fails), "{figures:?}");
    }
}
