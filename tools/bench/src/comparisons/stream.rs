//! Throughput and CPU time of one process of stream-fn, in batches of 1,000 records.

use std::time::Duration;

use crate::{
    error::BenchError,
    events,
    figure::Target,
    harness::{Bench, LATENCY, Measured, in_turn},
    hosted::Batches,
    stub::Stub,
    subject::{PYTHON, PYTHON_TUNED, Role},
};

struct Workload {
    unit: &'static str,
    value: fn(&Batches) -> f64,
    target: Target,
    target_tuned: Target,
    latency: Duration,
    turns: usize,
    /// Batches of one measurement of a sequential peer.
    peer_batches: usize,
}

/// Records a second, if each request takes 5 ms.
pub(super) async fn throughput(bench: &Bench) -> Result<Measured, BenchError> {
    let workload = Workload {
        unit: "records a second",
        value: |batches| batches.per_second,
        target: Target::RatioAtLeast(50.0),
        target_tuned: Target::RatioAtLeast(4.0),
        latency: LATENCY,
        turns: bench.size(3, 1),
        peer_batches: 1,
    };
    measure(bench, &workload).await
}

/// User and system time for a record, if requests take no time.
pub(super) async fn cpu(bench: &Bench) -> Result<Measured, BenchError> {
    let workload = Workload {
        unit: "µs CPU a record",
        value: |batches| batches.cpu_micros,
        target: Target::RatioAtMost(0.04),
        target_tuned: Target::RatioAtMost(0.1),
        latency: Duration::ZERO,
        turns: bench.size(5, 1),
        peer_batches: 2,
    };
    measure(bench, &workload).await
}

async fn measure(bench: &Bench, workload: &Workload) -> Result<Measured, BenchError> {
    let records = bench.size(1000, 100);
    let mut figures = Vec::new();
    for (transport, certificate) in [("HTTP", None), ("TLS", Some(&bench.certificate))] {
        let stub = Stub::serve(workload.latency, certificate)?;
        let batches = async |subject: &_| {
            let event = events::stream_batch(records, subject);
            let count = if subject.is_sequential {
                workload.peer_batches
            } else {
                bench.size(10, 2)
            };
            bench
                .host(subject, Role::Stream, &stub)?
                .batches(&event, records, count)
                .await
        };
        let measured = in_turn(bench.subjects.with_tuned(), workload.turns, batches).await?;
        let unit = format!("{}, {transport}", workload.unit);
        let targets = [(PYTHON, workload.target), (PYTHON_TUNED, workload.target_tuned)];
        figures.extend(measured.medians(&unit, workload.value, &targets));
    }
    Ok(figures.into())
}
