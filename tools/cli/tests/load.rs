//! Compares `vzero plan` with the simulation of load.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the message")]

use load::{Parameters, Rate, Report, plan};
use serde_json::Value;

/// The smallest `MemorySize`, in MB.
const SMALLEST: u32 = 128;
/// That of `template.yaml`.
const TEMPLATE: u32 = 512;

/// Maximum difference of a figure of the plan, as a part of the simulated one.
const TOLERANCE: f64 = 0.15;

/// Returns the plan and the result of the simulation.
fn both(memory: u32, mut parameters: Parameters) -> (Value, Report) {
    let plan = plan::plan(env!("CARGO_BIN_EXE_vzero").as_ref(), memory, &mut parameters).unwrap();
    (plan, load::run(&parameters))
}

/// Returns a load far below all limits.
fn small(updates_per_second: f64) -> Parameters {
    Parameters {
        updates_per_second,
        ..Parameters::default()
    }
}

#[test]
fn below_the_limits_the_figures_of_the_plan_are_close() {
    for (rate, zipf, own_history, other) in [
        (100.0, 0.0, false, Parameters::default()),
        (800.0, 0.0, false, Parameters::default()),
        (800.0, 0.0, true, Parameters::default()),
        (800.0, 0.8, false, Parameters::default()),
        (800.0, 0.8, true, Parameters::default()),
        // Many records in each batch.
        (
            800.0,
            0.5,
            false,
            Parameters {
                partitions: 4,
                ..Parameters::default()
            },
        ),
        // Items of two KB.
        (
            800.0,
            0.0,
            false,
            Parameters {
                item_bytes: 1_900,
                ..Parameters::default()
            },
        ),
        (
            800.0,
            0.0,
            false,
            Parameters {
                batching_window: 1,
                ..Parameters::default()
            },
        ),
        (
            800.0,
            0.0,
            false,
            Parameters {
                parallelization_factor: 10,
                ..Parameters::default()
            },
        ),
        (
            4_000.0,
            0.0,
            false,
            Parameters {
                queue_batch_size: 20,
                ..Parameters::default()
            },
        ),
    ] {
        let parameters = Parameters {
            updates_per_second: rate,
            zipf,
            own_history,
            ..other
        };
        for memory in [SMALLEST, TEMPLATE] {
            let (plan, report) = both(memory, parameters.clone());
            assert_eq!(plan::exceeded(&plan, &parameters), [""; 0], "{parameters:?}");
            assert!(report.saturated.is_empty(), "{:?} {parameters:?}", report.saturated);
            for figure in plan::figures(&plan, &report) {
                assert!(figure.relative() < TOLERANCE, "{figure:?} {memory} MB {parameters:?}");
            }
        }
    }
}

/// Each load exceeds one limit, and a part of it exceeds none.
#[test]
fn both_reach_the_same_limit_first() {
    let one_entity = Parameters {
        entities: 1,
        partitions: 4,
        ..small(600.0)
    };
    for (limit, exceeding) in [
        ("HottestEntity", one_entity.clone()),
        (
            "HottestEntity",
            Parameters {
                own_history: true,
                updates_per_second: 1_000.0,
                ..one_entity.clone()
            },
        ),
        (
            "HottestEntity",
            Parameters {
                zipf: 1.2,
                queue_concurrency: 100,
                ..small(3_400.0)
            },
        ),
        (
            "WriterFunction",
            Parameters {
                queue_concurrency: 12,
                ..small(3_700.0)
            },
        ),
        (
            "TableQuota",
            Parameters {
                queue_concurrency: 200,
                seconds: 8,
                ..small(22_000.0)
            },
        ),
        (
            "AccountConcurrency",
            Parameters {
                latency_ms: 400.0,
                queue_concurrency: 400,
                partitions: 1_000,
                ..small(3_000.0)
            },
        ),
        (
            "StreamFunction",
            Parameters {
                partitions: 4,
                parallelization_factor: 1,
                batch_size: 1,
                ..small(700.0)
            },
        ),
        (
            "HottestLane",
            Parameters {
                batch_size: 1,
                partitions: 50,
                latency_ms: 10.0,
                ..Parameters {
                    updates_per_second: 95.0,
                    ..one_entity
                }
            },
        ),
    ] {
        for (factor, is_exceeded) in [(1.0, true), (0.6, false)] {
            let rate = exceeding.updates_per_second * factor;
            let parameters = Parameters {
                updates_per_second: rate,
                ..exceeding.clone()
            };
            let (plan, report) = both(SMALLEST, parameters.clone());
            let planned = plan::exceeded(&plan, &parameters);
            let simulated = report.saturated.first().map(|saturated| saturated.limit);
            let expected = is_exceeded.then_some(limit);
            assert_eq!(planned.first().map(String::as_str), expected, "plan: {parameters:?}");
            assert_eq!(simulated, expected, "simulation: {:?} {parameters:?}", report.saturated);
        }
    }
}

/// The rate of one entity rises until its partition throttles it.
#[test]
fn the_maximum_of_one_entity_is_that_of_the_plan() {
    for own_history in [false, true] {
        let parameters = Parameters {
            entities: 1,
            partitions: 4,
            rate: Rate::Ramp,
            burst_seconds: 0.3,
            seconds: 300,
            own_history,
            ..small(950.0)
        };
        let (plan, report) = both(SMALLEST, parameters);
        let max = plan["HottestEntity"]["MostUpdatesPerSecond"].as_f64().unwrap();
        let reached = report
            .saturated
            .iter()
            .find(|saturated| saturated.limit == "HottestEntity");
        let reached = reached.unwrap().updates_per_second;
        assert!((max / reached - 1.0).abs() < 0.1, "{max} and {reached}");
    }
}

/// Throttled updates of few entities occupy the writer's invocations and fill the queue, so that the updates of all others wait.
#[test]
fn both_see_that_hot_entities_delay_the_others() {
    let hot = Parameters {
        seconds: 60,
        zipf: 1.2,
        queue_concurrency: 300,
        table_write_units: 100_000.0,
        messages_in_flight: 120_000,
        ..small(18_000.0)
    };
    let (plan, report) = both(SMALLEST, hot.clone());
    let planned = plan::exceeded(&plan, &hot);
    assert_eq!(planned[0], "HottestEntity");
    assert_eq!(report.saturated[0].limit, "HottestEntity");
    for limit in ["HottestEntity", "WriterFunction", "MessagesInFlight"] {
        assert!(planned.iter().any(|planned| planned == limit), "{limit}: {planned:?}");
        assert!(report.is_saturated(limit), "{limit}: {:?}", report.saturated);
    }
    assert!(
        report.queue.grows && report.updates_accepted < report.updates_sent * 0.6,
        "{report:?}"
    );
}

#[test]
fn the_cpu_times_of_the_plan_change_the_simulation() {
    let mut parameters = small(10.0);
    let given = (parameters.writer_cpu_micros, parameters.stream_cpu_micros) == (0.0, 0.0);
    (parameters.writer_cpu_micros, parameters.stream_cpu_micros) = (0.0, 0.0);
    plan::plan(env!("CARGO_BIN_EXE_vzero").as_ref(), SMALLEST, &mut parameters).unwrap();
    assert!(
        !given && parameters.writer_cpu_micros > 0.0 && parameters.stream_cpu_micros > 0.0,
        "{parameters:?}"
    );
}
