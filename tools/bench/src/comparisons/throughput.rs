//! Throughput and CPU time of one process: of stream-fn in batches of 1,000 records, and of writer-fn in SQS batches.

use std::time::Duration;

use crate::{
    error::BenchError,
    events,
    figure::{Figure, Measured, Target},
    harness::{Bench, LATENCY, Measurements, in_turn},
    hosted::Batches,
    stub::Stub,
    subject::{Kind, PYTHON, PYTHON_TUNED, Role, Subject},
};

/// Batch size of the template, and one at which the CPU limits the throughput instead of the latency.
const QUEUE_BATCHES: [(usize, &str); 2] = [(10, ""), (100, ", batches of 100")];
/// Maximum CPU time of an update, in microseconds.
const MAX_UPDATE_CPU: f64 = 150.0;

type Value = fn(&Batches) -> f64;

/// Measures batches with this number of items in each subject. `count` is the number of batches, `sequential` the number for a sequential
/// peer.
async fn batches<'a>(
    bench: &'a Bench,
    stub: &Stub,
    (role, items): (Role, usize),
    rounds: usize,
    (count, sequential): (usize, usize),
) -> Result<Measurements<'a, Batches>, BenchError> {
    let measure = async |subject: &Subject| {
        let event = events::event(role, items, subject);
        let count = if subject.kind == Kind::Sequential {
            sequential
        } else {
            count
        };
        bench
            .host(subject, role, stub, None)?
            .batches(&event, items, count)
            .await
    };
    in_turn(bench.subjects.with_tuned(), rounds, measure).await
}

/// Records a second, if each request takes 5 ms.
pub(super) async fn stream(bench: &Bench) -> Result<Measured, BenchError> {
    let targets = [
        (PYTHON, Target::RatioAtLeast(50.0)),
        (PYTHON_TUNED, Target::RatioAtLeast(4.0)),
    ];
    records(
        bench,
        LATENCY,
        bench.size(3, 1),
        1,
        ("records a second", |batches| batches.per_second, &targets),
    )
    .await
}

/// User and system time for a record, if requests take no time.
pub(super) async fn stream_cpu(bench: &Bench) -> Result<Measured, BenchError> {
    let targets = [
        (PYTHON, Target::RatioAtMost(0.04)),
        (PYTHON_TUNED, Target::RatioAtMost(0.1)),
    ];
    records(
        bench,
        Duration::ZERO,
        bench.size(5, 1),
        2,
        ("µs CPU a record", |batches| batches.cpu_micros, &targets),
    )
    .await
}

async fn records(
    bench: &Bench,
    latency: Duration,
    rounds: usize,
    sequential: usize,
    (unit, value, targets): (&str, Value, &[(&str, Target)]),
) -> Result<Measured, BenchError> {
    let mut figures = Vec::new();
    for (transport, certificate) in [("HTTP", None), ("TLS", Some(&bench.certificate))] {
        let stub = Stub::serve(latency, certificate)?;
        let workload = (Role::Stream, bench.size(1000, 100));
        let measured = batches(bench, &stub, workload, rounds, (bench.size(10, 2), sequential)).await?;
        figures.extend(measured.medians(&format!("{unit}, {transport}"), value, targets));
    }
    Ok(figures.into())
}

/// Updates a second and their CPU time, if each request takes 5 ms.
pub(super) async fn writer(bench: &Bench) -> Result<Measured, BenchError> {
    let stub = Stub::serve(LATENCY, None)?;
    let throughput = [
        (PYTHON, Target::RatioAtLeast(8.0)),
        (PYTHON_TUNED, Target::RatioAtLeast(4.0)),
    ];
    let cpu = [(PYTHON_TUNED, Target::RatioAtMost(0.1))];
    let mut figures = Vec::new();
    for (items, label) in QUEUE_BATCHES {
        let counts = [bench.size(2000, 50), bench.size(200, 20)].map(|updates| (updates / items).max(1));
        let workload = (Role::Writer, items);
        let measured = batches(bench, &stub, workload, bench.size(5, 1), counts.into()).await?;
        figures.extend(measured.medians(
            &format!("updates a second{label}"),
            |batches| batches.per_second,
            &throughput,
        ));
        let unit = format!("µs CPU an update{label}");
        figures.extend(measured.medians(&unit, |batches| batches.cpu_micros, &cpu));
        let ours = measured.percentile(0, 0.5, |batches| batches.cpu_micros);
        figures.push(Figure::new(unit, ours).with_target(Target::AtMost(MAX_UPDATE_CPU)));
    }
    Ok(figures.into())
}
