//! Cost and latency of our functions for each `MemorySize`, with the CPU share of each, if a request to DynamoDB takes 5 ms.

use std::time::Duration;

use serde_json::Value;

use crate::{
    error::{BenchError, cannot},
    figure::{Figure, Plot, mean, median},
    harness::{Bench, LATENCY, Measured},
    limits::Limits,
    stub::Stub,
    workload::{self, MEMORY_SIZES, Workload},
};

/// The prices of `vzero plan`.
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
    let (mut figures, mut series) = (Vec::new(), Vec::new());
    for workload in workload::ALL {
        let mut line = Vec::new();
        for memory_mb in MEMORY_SIZES {
            let times = invocations(bench, &stub, workload, Limits::create(&controllers, memory_mb)?).await?;
            // AWS bills whole milliseconds.
            let billed = times.iter().map(|time| time.ceil()).collect::<Vec<_>>();
            let cost = prices.of_million(&workload, memory_mb, mean(&billed));
            let unit = |what: &str| format!("{what}, {memory_mb} MB, {}", workload.name);
            figures.push(Figure::new(unit("USD a million items"), cost));
            figures.push(Figure::new(unit("ms an invocation, p50"), median(&times)));
            line.push((f64::from(memory_mb), cost));
        }
        series.push((workload.name.to_owned(), line));
    }
    let plot = Plot::Lines {
        x: "MB of memory",
        y: "USD a million items",
        series,
    };
    Ok(Measured { figures, plot })
}

/// Returns the times of warm invocations, in milliseconds.
async fn invocations(bench: &Bench, stub: &Stub, workload: Workload, limits: Limits) -> Result<Vec<f64>, BenchError> {
    let ours = &bench.subjects.ours;
    let event = workload.event(ours);
    let hosted = bench.host_limited(ours, workload.role, stub, limits)?;
    hosted.invoke(&event).await?;
    let (count, time) = bench.size((20, Duration::from_secs(2)), (1, Duration::ZERO));
    hosted.times(&event, count, time).await
}
