//! Time from the start of a process to its first poll of the Runtime API.
//!
//! On a shared machine, the slowest starts contain what the machine adds. A floor shows it: the time of a program that does nothing, which is started
//! before each start.

use std::{
    process::Stdio,
    time::{Duration, Instant},
};

use tokio::process::Command;

use crate::{
    error::BenchError,
    events,
    figure::{Figure, Measured, Target, millis},
    harness::{Bench, in_turn},
    stub::Stub,
    subject::{PYTHON, Role, Subject},
};

/// A program that does nothing.
const FLOOR: &str = "/bin/true";

/// One start, and the start before it of the program that does nothing, in milliseconds.
struct Start {
    wall: f64,
    floor: f64,
}

pub(super) async fn measure(bench: &Bench) -> Result<Measured, BenchError> {
    let stub = Stub::serve(Duration::ZERO, None)?;
    let mut figures = Vec::new();
    for role in Role::BOTH {
        let start = async |subject: &Subject| {
            let floor = floor().await?;
            let hosted = bench.host(subject, role, &stub, None)?;
            let wall = hosted.cold_start(&events::empty()).await?.to_first_poll;
            Ok(Start { wall, floor })
        };
        let starts = in_turn(bench.subjects.all(), bench.size(200, 5), start).await?;
        for (label, share) in [("p50", 0.5), ("p99", 0.99)] {
            let unit = format!("ms, {label}, {}", role.name());
            let target = (PYTHON, Target::RatioAtMost(0.03));
            figures.extend(starts.percentiles(share, &unit, |start| start.wall, &[target]));
            let ours = Figure::new(unit, starts.percentile(0, share, |start| start.wall));
            figures.push(ours.compared_with(FLOOR, starts.percentile(0, share, |start| start.floor)));
        }
    }
    Ok(figures.into())
}

/// Returns the time from the start of a program that does nothing to its end, in milliseconds. It is started as functions are.
async fn floor() -> Result<f64, BenchError> {
    let mut command = Command::new(FLOOR);
    command.env_clear().stdin(Stdio::piped()).kill_on_drop(true);
    let started = Instant::now();
    command.spawn()?.wait().await?;
    Ok(millis(started.elapsed()))
}
