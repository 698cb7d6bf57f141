//! Time from the start of a process to the response of its first invocation, which makes one write over TLS.

use std::time::Duration;

use crate::{
    error::BenchError,
    events,
    figure::{Target, millis},
    harness::{Bench, Measured, in_turn},
    stub::Stub,
    subject::{PLAIN, PYTHON, Role},
};

/// One cold start, in milliseconds.
struct ColdStart {
    cpu: f64,
    wall: f64,
    /// From the first poll on. Lambda gives a function a full CPU before it.
    first_invocation: f64,
}

/// A unit, its value, and the maximum ratios to Python and to the build with default features.
type Row = (&'static str, fn(&ColdStart) -> f64, &'static [(&'static str, Target)]);
const ROWS: [Row; 3] = [
    (
        "ms CPU",
        |cold| cold.cpu,
        &[(PYTHON, Target::RatioAtMost(0.08)), (PLAIN, Target::RatioAtMost(0.4))],
    ),
    (
        "ms wall",
        |cold| cold.wall,
        &[(PYTHON, Target::RatioAtMost(0.15)), (PLAIN, Target::RatioAtMost(0.4))],
    ),
    ("ms of the first invocation", |cold| cold.first_invocation, &[]),
];

pub(super) async fn measure(bench: &Bench) -> Result<Measured, BenchError> {
    let stub = Stub::serve(Duration::ZERO, Some(&bench.certificate))?;
    let mut figures = Vec::new();
    for role in Role::BOTH {
        let start = async |subject| {
            let event = events::one(role, subject);
            let hosted = bench.host(subject, role, &stub)?;
            let before = stub.requests();
            let responded = hosted.invoke(&event).await?;
            if stub.requests() == before {
                return Err(BenchError::NoWrite(role.name()));
            }
            let process = hosted.process()?;
            Ok(ColdStart {
                cpu: millis(hosted.cpu()?),
                wall: millis(responded.duration_since(process.started)),
                first_invocation: millis(responded.duration_since(process.ready.unwrap_or(process.started))),
            })
        };
        let starts = in_turn(bench.subjects.all(), bench.size(30, 3), start).await?;
        for (unit, value, targets) in ROWS {
            figures.extend(starts.medians(&format!("{unit}, {}", role.name()), value, targets));
        }
    }
    Ok(figures.into())
}
