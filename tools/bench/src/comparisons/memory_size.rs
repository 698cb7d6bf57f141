//! Cost and latency of our functions for each `MemorySize`, with the CPU share of each, if a request to DynamoDB takes 5 ms.

use std::time::Duration;

use serde_json::Value;

use crate::{
    error::{BenchError, cannot},
    figure::{Figure, Plot, mean, median, millis},
    harness::{Bench, LATENCY, Measured},
    limits::Limits,
    stub::Stub,
    subject::root,
    workload::{self, MEMORY_SIZES, QUEUE_BATCH, RECORDS, Workload},
};

/// Processes of each size and workload, of which the median counts.
const ROUNDS: usize = 3;
/// The prices of `vzero admin plan`.
const PRICES: &str = include_str!("../../../cli/src/plan/prices.json");

/// Prices of Lambda in USD.
struct Prices {
    request: f64,
    gb_second: f64,
}

impl Prices {
    fn read() -> Result<Self, BenchError> {
        let prices: Value = serde_json::from_str(PRICES).map_err(cannot("read the prices"))?;
        let of = |name: &str| prices[name]["Price"].as_f64().unwrap_or(f64::NAN);
        Ok(Self {
            // Of a million.
            request: of("LambdaRequests") / 1e6,
            gb_second: of("LambdaArm64"),
        })
    }

    /// Returns the cost of a million items in invocations of this billed duration.
    fn of_million(&self, workload: &Workload, memory_mb: u32, billed_ms: f64) -> f64 {
        let gb_seconds = f64::from(memory_mb) / 1024.0 * billed_ms / 1e3;
        #[allow(clippy::cast_precision_loss, reason = "at most a thousand")]
        let invocations = 1e6 / workload.items as f64;
        invocations * (self.request + gb_seconds * self.gb_second)
    }
}

pub(super) async fn measure(bench: &Bench) -> Result<Measured, BenchError> {
    let Some(controllers) = bench.controllers("memory size") else {
        return Ok(Vec::new().into());
    };
    let stub = Stub::serve(LATENCY, Some(&bench.certificate))?;
    let prices = Prices::read()?;
    let mut figures = vec![Figure::new("ms of a request", stub_latency(bench).await?)];
    let (mut costs, mut latencies) = (vec![0.0; MEMORY_SIZES.len()], vec![0.0; MEMORY_SIZES.len()]);
    for workload in workload::ALL {
        // The sizes in turn, so that a slow moment of the machine does not affect one size only.
        let mut rounds: Vec<_> = MEMORY_SIZES.iter().map(|_| Vec::new()).collect();
        for _ in 0..bench.size(ROUNDS, 1) {
            for (memory_mb, means) in MEMORY_SIZES.into_iter().zip(&mut rounds) {
                means.push(invocations(bench, &stub, workload, Limits::create(&controllers, memory_mb)?).await?);
            }
        }
        for (index, (memory_mb, means)) in MEMORY_SIZES.into_iter().zip(rounds).enumerate() {
            let of = |value: fn(&Means) -> f64| median(&means.iter().map(value).collect::<Vec<_>>());
            let (time, billed) = (of(|means| means.time), of(|means| means.billed));
            let cost = prices.of_million(&workload, memory_mb, billed);
            let unit = |what: &str| format!("{what}, {memory_mb} MB, {}", workload.name);
            figures.push(Figure::new(unit("USD a million items"), cost));
            figures.push(Figure::new(unit("ms an invocation, mean"), time));
            if [QUEUE_BATCH, RECORDS]
                .iter()
                .any(|typical| typical.name == workload.name)
            {
                costs[index] += cost;
                latencies[index] += time;
            }
        }
    }
    let line = |values: &[f64], scale: f64| {
        let points = MEMORY_SIZES.iter().zip(values);
        points.map(|(size, value)| (f64::from(*size), value * scale)).collect()
    };
    for (index, memory_mb) in MEMORY_SIZES.into_iter().enumerate() {
        let unit = |what: &str| format!("{what}, {memory_mb} MB, {} and {}", QUEUE_BATCH.name, RECORDS.name);
        figures.push(Figure::new(unit("USD a million updates"), costs[index]));
        figures.push(Figure::new(unit("ms of both functions"), latencies[index]));
    }
    let best = MEMORY_SIZES[best(&costs, &latencies)];
    figures.push(Figure::new("MB, the best size", f64::from(best)).compared_with("template.yaml", template_memory()?));
    let plot = Plot::Lines {
        x: "MB of memory",
        y: "ms of both functions; USD a billion updates",
        series: vec![
            ("ms of both functions".to_owned(), line(&latencies, 1.0)),
            ("USD a billion updates".to_owned(), line(&costs, 1000.0)),
        ],
    };
    Ok(Measured { figures, plot })
}

/// Returns the index of the size with the lowest product of cost and latency.
fn best(costs: &[f64], latencies: &[f64]) -> usize {
    let product = |index: &usize| costs[*index] * latencies[*index];
    let sizes = 0..costs.len();
    sizes
        .min_by(|one, other| product(one).total_cmp(&product(other)))
        .unwrap_or_default()
}

/// Returns the `MemorySize` of the template, in MB.
fn template_memory() -> Result<f64, BenchError> {
    let template = std::fs::read_to_string(root().join("template.yaml"))?;
    let size = template
        .lines()
        .find_map(|line| line.trim().strip_prefix("MemorySize:"));
    size.and_then(|size| size.trim().parse().ok())
        .ok_or_else(|| BenchError::UnexpectedResult("template.yaml has no MemorySize".to_owned()))
}

/// Means of the warm invocations of one process, in milliseconds.
struct Means {
    time: f64,
    /// In whole milliseconds each, as AWS bills them.
    billed: f64,
}

async fn invocations(bench: &Bench, stub: &Stub, workload: Workload, limits: Limits) -> Result<Means, BenchError> {
    let ours = &bench.subjects.ours;
    let event = workload.event(ours);
    let hosted = bench.host_limited(ours, workload.role, stub, limits)?;
    hosted.invoke(&event).await?;
    let (count, time) = bench.size((7, Duration::from_millis(700)), (1, Duration::ZERO));
    let times = hosted.times(&event, count, time).await?;
    let billed: Vec<_> = times.iter().map(|time| time.ceil()).collect();
    Ok(Means {
        time: mean(&times),
        billed: mean(&billed),
    })
}

/// Returns the median time of a request to the stub without a function, in milliseconds: its latency, and what its timer adds.
async fn stub_latency(bench: &Bench) -> Result<f64, BenchError> {
    let times = Stub::serve(LATENCY, None)?.times(bench.size(200, 3)).await?;
    Ok(median(&times.into_iter().map(millis).collect::<Vec<_>>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_size_has_the_lowest_product_of_cost_and_latency() {
        for (costs, latencies, index) in [
            // Half the latency at the same cost, then little less latency at more cost.
            ([1.0, 1.0, 1.1], [40.0, 20.0, 19.5], 1),
            ([1.0, 2.0, 4.0], [20.0, 20.0, 20.0], 0),
            ([1.0, 1.1, 1.2], [40.0, 20.0, 10.0], 2),
        ] {
            assert_eq!(best(&costs, &latencies), index, "{costs:?}");
        }
    }

    #[test]
    fn a_million_items_cost_their_invocations() {
        let prices = Prices {
            request: 2e-7,
            gb_second: 1e-5,
        };
        // 100,000 requests, and 100,000 times 0.25 GB for 8 ms.
        let cost = prices.of_million(&QUEUE_BATCH, 256, 8.0);
        assert!((cost - 0.022).abs() < 1e-9, "{cost}");
        assert!(template_memory().unwrap() >= 128.0);
    }
}
