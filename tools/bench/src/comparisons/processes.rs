//! Comparisons of a function in one process: its start, its first invocation, its throughput, its CPU time and its memory.

use std::{
    iter,
    process::Stdio,
    time::{Duration, Instant},
};

use tokio::process::Command;

use crate::{
    error::BenchError,
    events,
    figure::{Figure, Target, millis},
    harness::{Bench, LATENCY, Measurements, in_turn},
    stub::Stub,
    subject::{Kind, NODE, NODE_TUNED, PYTHON, PYTHON_TUNED, Role, Subject},
};

/// Targets, each with the peer to which it applies.
type Targets = [(&'static str, Target)];

/// A program that does nothing.
const NOTHING: &str = "/bin/true";
/// Units of the cold path. Lambda gives a function a full CPU before its first invocation.
const COLD_PATH: [(&str, &Targets); 3] = [
    ("ms CPU", &[(PYTHON, Target::RatioAtMost(0.08))]),
    ("ms wall", &[(PYTHON, Target::RatioAtMost(0.15))]),
    ("ms of the first invocation", &[]),
];
/// Batch size of the template, and one at which the CPU limits the throughput instead of the latency.
const QUEUE_BATCHES: [(usize, &str); 2] = [(10, ""), (100, ", batches of 100")];
/// Maximum batch size of a peer that processes one item after the other: each takes as long as in a larger batch.
const MAX_SEQUENTIAL: usize = 250;
/// Maximum CPU time of an update, in microseconds.
const MAX_UPDATE_CPU: f64 = 150.0;
/// Maximum number of requests for a change of an attached table: a read, and a part of a batch of 25.
const MAX_ATTACHED_REQUESTS: f64 = 1.05;
const SINGLE: &str = "single updates";
/// Maximum growth of the peak memory from the first tenth of the records to the last: the variance of the allocator.
const MAX_GROWTH: f64 = 1.05;

/// Time from the start of a process to its first poll of the Runtime API.
///
/// On a shared machine, the slowest starts contain what the machine adds. A floor shows it: the time of a program that does nothing, which is started
/// before each start.
pub(super) async fn start(bench: &Bench) -> Result<Vec<Figure>, BenchError> {
    let stub = Stub::serve(Duration::ZERO, None)?;
    let mut figures = Vec::new();
    for role in Role::BOTH {
        let start = async |subject: &Subject| {
            let floor = floor().await?;
            let hosted = bench.host(subject, role, &stub, None)?;
            let [to_first_poll, ..] = hosted.cold_start(&events::empty()).await?;
            Ok([to_first_poll, floor])
        };
        let starts = in_turn(bench.simple(), bench.size(120, 5), start).await?;
        for (label, share, most) in [("p50", 0.5, 0.018), ("p99", 0.99, 0.02)] {
            let unit = format!("ms, {label}, {}", role.name());
            figures.extend(starts.figures(&unit, share, 0, &[(PYTHON, Target::RatioAtMost(most))]));
            let floor = starts.percentile(0, share, 1);
            figures.push(starts.ours(unit, share, 0).compared_with(NOTHING, floor));
        }
    }
    Ok(figures)
}

/// Returns the time from the start of a program that does nothing to its end, in milliseconds. It is started as functions are.
async fn floor() -> Result<f64, BenchError> {
    let mut command = Command::new(NOTHING);
    command.env_clear().stdin(Stdio::piped()).kill_on_drop(true);
    let started = Instant::now();
    command.spawn()?.wait().await?;
    Ok(millis(started.elapsed()))
}

/// Time from the start of a process to the response of its first invocation, which makes one write over TLS.
pub(super) async fn cold_path(bench: &Bench) -> Result<Vec<Figure>, BenchError> {
    let stub = Stub::serve(Duration::ZERO, Some(&bench.certificate))?;
    let mut figures = Vec::new();
    for role in Role::BOTH {
        let start = async |subject: &Subject| {
            let hosted = bench.host(subject, role, &stub, None)?;
            let before = stub.requests();
            let [_, response, invocation] = hosted.cold_start(&events::event(role, 1, subject)).await?;
            match stub.requests() == before {
                true => Err(BenchError::Failed(format!("{} sent no request", role.name()))),
                false => Ok([millis(hosted.cpu()?), response, invocation]),
            }
        };
        let starts = in_turn(bench.simple(), bench.size(30, 3), start).await?;
        for (index, (unit, targets)) in COLD_PATH.into_iter().enumerate() {
            figures.extend(starts.figures(&format!("{unit}, {}", role.name()), 0.5, index, targets));
        }
    }
    Ok(figures)
}

/// Measures items a second, their CPU time in microseconds, and the requests for an item, of batches in each subject. `count` is the number of
/// batches, `sequential` the number for a sequential peer.
async fn batches<'a>(
    bench: &Bench,
    stub: &Stub,
    subjects: impl Iterator<Item = &'a Subject>,
    (role, items): (Role, usize),
    rounds: usize,
    (count, sequential): (usize, usize),
) -> Result<Measurements<'a, 3>, BenchError> {
    let measure = async |subject: &Subject| {
        let (items, count) = match subject.kind {
            Kind::Sequential => (items.min(MAX_SEQUENTIAL), sequential),
            _ => (items, count),
        };
        let event = events::event(role, items, subject);
        let hosted = bench.host(subject, role, stub, None)?;
        let before = stub.requests();
        let [per_second, cpu] = hosted.batches(&event, items, count).await?;
        #[allow(clippy::cast_precision_loss, reason = "some thousands")]
        let requests = (stub.requests() - before) as f64 / (items * (count + 1)) as f64;
        Ok([per_second, cpu, requests])
    };
    let is_measured = |subject: &&Subject| subject.kind != Kind::Floor || stub.certificate.is_none();
    in_turn(subjects.filter(is_measured), rounds, measure).await
}

/// Records a second, if each request takes 5 ms.
pub(super) async fn stream(bench: &Bench) -> Result<Vec<Figure>, BenchError> {
    let targets = [
        (PYTHON, Target::RatioAtLeast(200.0)),
        (NODE, Target::RatioAtLeast(200.0)),
        (PYTHON_TUNED, Target::RatioAtLeast(4.0)),
        (NODE_TUNED, Target::RatioAtLeast(2.5)),
    ];
    records(bench, LATENCY, bench.size(3, 1), 1, ("records a second", 0, &targets)).await
}

/// User and system time for a record, if requests take no time.
pub(super) async fn stream_cpu(bench: &Bench) -> Result<Vec<Figure>, BenchError> {
    let targets = per_item(0.02, 0.12);
    let rounds = bench.size(3, 1);
    records(bench, Duration::ZERO, rounds, 2, ("µs CPU a record", 1, &targets)).await
}

/// Targets of the CPU time of an item, beside the peers that process one after the other, and the tuned ones.
fn per_item(plain: f64, tuned: f64) -> [(&'static str, Target); 4] {
    let (plain, tuned) = (Target::RatioAtMost(plain), Target::RatioAtMost(tuned));
    [
        (PYTHON, plain),
        (NODE, plain),
        (PYTHON_TUNED, tuned),
        (NODE_TUNED, tuned),
    ]
}

async fn records(
    bench: &Bench,
    latency: Duration,
    rounds: usize,
    sequential: usize,
    (unit, value, targets): (&str, usize, &Targets),
) -> Result<Vec<Figure>, BenchError> {
    let mut figures = Vec::new();
    for (transport, certificate) in [("HTTP", None), ("TLS", Some(&bench.certificate))] {
        let stub = Stub::serve(latency, certificate)?;
        let workload = (Role::Stream, bench.size(1000, 100));
        let counts = (bench.size(10, 2), sequential);
        let measured = batches(bench, &stub, bench.subjects.iter(), workload, rounds, counts).await?;
        figures.extend(measured.figures(&format!("{unit}, {transport}"), 0.5, value, targets));
    }
    Ok(figures)
}

/// Updates a second and their CPU time, if each request takes 5 ms.
pub(super) async fn writer(bench: &Bench) -> Result<Vec<Figure>, BenchError> {
    let stub = Stub::serve(LATENCY, None)?;
    let throughput = [
        (PYTHON, Target::RatioAtLeast(8.0)),
        (PYTHON_TUNED, Target::RatioAtLeast(3.0)),
        (NODE_TUNED, Target::RatioAtLeast(3.0)),
    ];
    let mut figures = Vec::new();
    for (items, label) in QUEUE_BATCHES {
        let counts = [bench.size(2000, 50), bench.size(200, 20)].map(|updates| (updates / items).max(1));
        let workload = (Role::Writer, items);
        let subjects = bench.subjects.iter();
        let measured = batches(bench, &stub, subjects, workload, bench.size(3, 1), counts.into()).await?;
        figures.extend(measured.figures(&format!("updates a second{label}"), 0.5, 0, &throughput));
        let unit = format!("µs CPU an update{label}");
        figures.extend(measured.figures(&unit, 0.5, 1, &per_item(0.05, 0.1)));
        figures.push(measured.ours(unit, 0.5, 1).with_target(Target::AtMost(MAX_UPDATE_CPU)));
    }
    Ok(figures)
}

/// Changes of an attached table a second, their CPU time and their requests, if each request takes 5 ms. The peers put the version that a record names,
/// while stream-fn reads the newest version first.
pub(super) async fn attached(bench: &Bench) -> Result<Vec<Figure>, BenchError> {
    let stub = Stub::serve(LATENCY, None)?;
    let settings = [
        ("ATTACHED_STREAM_ARN", events::STREAM_ARN),
        ("HISTORY_TABLE_NAME", "VersionControl-history"),
    ];
    let ours = bench.subjects[0].variant("vzero", Kind::Attached, &settings);
    let subjects = iter::once(&ours).chain(bench.simple().skip(1));
    let (workload, counts) = ((Role::Stream, bench.size(250, 100)), (bench.size(20, 2), 1));
    let measured = batches(bench, &stub, subjects, workload, bench.size(3, 1), counts).await?;
    let units = [
        ("changes a second", Target::RatioAtLeast(10.0)),
        ("µs CPU a change", Target::RatioAtMost(0.2)),
    ];
    let mut figures = beside(&measured, &[PYTHON, NODE], &units);
    let requests = measured.ours("requests a change", 0.5, 2);
    figures.push(requests.with_target(Target::AtMost(MAX_ATTACHED_REQUESTS)));
    Ok(figures)
}

/// Updates a second in change sets of ten entities, their CPU time and their requests, beside single updates, if each request takes 5 ms.
pub(super) async fn change_sets(bench: &Bench) -> Result<Vec<Figure>, BenchError> {
    let stub = Stub::serve(LATENCY, None)?;
    let subjects =
        [("vzero", Kind::Sets), (SINGLE, Kind::Ours)].map(|(name, kind)| bench.subjects[0].variant(name, kind, &[]));
    let (workload, count) = ((Role::Writer, 100), bench.size(20, 2));
    let measured = batches(
        bench,
        &stub,
        subjects.iter(),
        workload,
        bench.size(5, 1),
        (count, count),
    )
    .await?;
    let units = [
        ("updates a second", Target::RatioAtLeast(0.8)),
        ("µs CPU an update", Target::RatioAtMost(1.25)),
        ("requests an update", Target::RatioAtMost(0.25)),
    ];
    Ok(beside(&measured, &[SINGLE], &units))
}

/// Returns the figures of measured values with a target beside each of these peers.
fn beside(measured: &Measurements<'_, 3>, peers: &[&'static str], units: &[(&str, Target)]) -> Vec<Figure> {
    let figures = units.iter().enumerate().flat_map(|(value, (unit, target))| {
        let targets: Vec<_> = peers.iter().map(|peer| (*peer, *target)).collect();
        measured.figures(unit, 0.5, value, &targets)
    });
    figures.collect()
}

/// Peak resident memory of stream-fn.
pub(super) async fn memory(bench: &Bench) -> Result<Vec<Figure>, BenchError> {
    let stub = Stub::serve(Duration::ZERO, None)?;
    let batch = bench.size(1000, 100);
    let peaks = async |subject: &Subject| {
        let event = events::event(Role::Stream, batch, subject);
        let hosted = bench.host(subject, Role::Stream, &stub, None)?;
        let mut peaks = [0.0; 2];
        for (peak, batches) in peaks.iter_mut().zip([10, 90]) {
            for _ in 0..batches {
                hosted.invoke(&event).await?;
            }
            *peak = hosted.peak_memory()?;
        }
        Ok(peaks)
    };
    let peaks = in_turn(bench.subjects.iter(), 1, peaks).await?;
    let records = 100 * batch;
    let target = (PYTHON, Target::RatioAtMost(0.2));
    let mut figures = peaks.figures(&format!("MB resident, {records} records"), 0.5, 1, &[target]);
    let unit = format!("MB at {records} records, beside those at {}", records / 10);
    let growth = peaks
        .ours(unit, 0.5, 1)
        .compared_with("vzero, a tenth", peaks.percentile(0, 0.5, 0));
    figures.push(growth.with_target(Target::RatioAtMost(MAX_GROWTH)));
    Ok(figures)
}
