//! Time from the start of a process to its first poll of the Runtime API.

use std::time::Duration;

use crate::{
    error::BenchError,
    events,
    figure::{Target, millis},
    harness::{Bench, Measured, in_turn},
    stub::Stub,
    subject::{PYTHON, Role},
};

pub(super) async fn measure(bench: &Bench) -> Result<Measured, BenchError> {
    let stub = Stub::serve(Duration::ZERO, None)?;
    let event = events::empty();
    let mut figures = Vec::new();
    for role in Role::BOTH {
        let start = async |subject| {
            let hosted = bench.host(subject, role, &stub, 1)?;
            hosted.invoke(&event).await?;
            let process = hosted.process()?;
            Ok(millis(
                process.ready.unwrap_or(process.started).duration_since(process.started),
            ))
        };
        let starts = in_turn(bench.subjects.all(), bench.size(50, 5), start).await?;
        for (label, share) in [("p50", 0.5), ("p99", 0.99)] {
            let unit = format!("ms, {label}, {}", role.name());
            let target = (PYTHON, Target::RatioAtMost(0.03));
            figures.extend(starts.percentiles(share, &unit, |time| *time, &[target]));
        }
    }
    Ok(figures.into())
}
