//! Time from the start of a process to its first poll of the Runtime API.
//!
//! On a shared machine, the slowest starts contain what the machine adds. Four figures show it: the time without that of waiting for a CPU, the page
//! faults that read from a disk, the CPU time, which grows if other virtual machines use the same CPU, and a floor, the time of a program that does
//! nothing, which is started before each start.

use std::{
    process::Stdio,
    time::{Duration, Instant},
};

use tokio::process::Command;

use crate::{
    error::BenchError,
    events,
    figure::{Figure, Target, millis},
    harness::{Bench, Measured, Measurements, in_turn},
    process,
    stub::Stub,
    subject::{PYTHON, Role, Subject},
};

/// A program that does nothing.
const FLOOR: &str = "/bin/true";

/// One start; times in milliseconds.
struct Start {
    wall: f64,
    /// Sum over all threads until the response to an empty event, so it can exceed the part of `wall`. `None` if the kernel does not measure it.
    waiting: Option<f64>,
    major_faults: Option<f64>,
    /// CPU time of all threads, until the response to an empty event.
    cpu: f64,
    floor: f64,
}

pub(super) async fn measure(bench: &Bench) -> Result<Measured, BenchError> {
    let stub = Stub::serve(Duration::ZERO, None)?;
    let mut figures = Vec::new();
    for role in Role::BOTH {
        let start = async |subject| start(bench, &stub, role, subject).await;
        let starts = in_turn(bench.subjects.all(), bench.size(200, 5), start).await?;
        for (label, share) in [("p50", 0.5), ("p99", 0.99)] {
            let unit = format!("ms, {label}, {}", role.name());
            let target = (PYTHON, Target::RatioAtMost(0.03));
            figures.extend(starts.percentiles(share, &unit, |start| start.wall, &[target]));
        }
        figures.extend(parts_of_the_machine(&starts, role));
    }
    Ok(figures.into())
}

async fn start(bench: &Bench, stub: &Stub, role: Role, subject: &Subject) -> Result<Start, BenchError> {
    let floor = floor().await?;
    let hosted = bench.host(subject, role, stub)?;
    hosted.invoke(&events::empty()).await?;
    let process = hosted.process()?;
    Ok(Start {
        wall: millis(process.ready.unwrap_or(process.started).duration_since(process.started)),
        waiting: process::cpu_wait(process.pid).map(millis),
        major_faults: process::major_faults(process.pid).map(f64::from),
        cpu: millis(hosted.cpu()?),
        floor,
    })
}

/// Returns the time from the start of a program that does nothing to its end, in milliseconds. It is started as functions are.
async fn floor() -> Result<f64, BenchError> {
    let mut command = Command::new(FLOOR);
    command.env_clear().stdin(Stdio::piped()).kill_on_drop(true);
    let started = Instant::now();
    command.spawn()?.wait().await?;
    Ok(millis(started.elapsed()))
}

/// Returns the figures of our starts that show which part of the slowest is the machine's. The peers wait in several threads at once, so that the sum of
/// their waiting times exceeds the time of their start.
fn parts_of_the_machine(starts: &Measurements<'_, Start>, role: Role) -> Vec<Figure> {
    let role = role.name();
    let p99 = |value: fn(&Start) -> f64| starts.percentile_of_ours(0.99, value);
    let mut figures = Vec::new();
    if starts.first().is_some_and(|start| start.waiting.is_some()) {
        let without = p99(|start| (start.wall - start.waiting.unwrap_or_default()).max(0.0));
        figures.push(Figure::new(
            format!("ms, p99 without waiting for a CPU, {role}"),
            without,
        ));
    }
    let faults = p99(|start| start.major_faults.unwrap_or(f64::NAN));
    figures.push(Figure::new(format!("major page faults, p99, {role}"), faults));
    for (label, share) in [("p50", 0.5), ("p99", 0.99)] {
        let cpu = starts.percentile_of_ours(share, |start| start.cpu);
        figures.push(Figure::new(
            format!("ms CPU to the first response, {label}, {role}"),
            cpu,
        ));
        let ours = starts.percentile_of_ours(share, |start| start.wall);
        let floor = starts.percentile_of_ours(share, |start| start.floor);
        figures.push(Figure::new(format!("ms, {label}, {role}"), ours).compared_with(FLOOR, floor));
    }
    figures
}
