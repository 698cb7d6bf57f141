//! Time from the start of a process to the response of its first invocation, which makes one write over TLS.

use std::time::Duration;

use crate::{
    error::BenchError,
    events,
    figure::{Measured, Target, millis},
    harness::{Bench, in_turn},
    stub::Stub,
    subject::{PLAIN, PYTHON, Role},
};

/// Units, and their maximum ratios to Python and to the build with default features. Lambda gives a function a full CPU before its first invocation.
const UNITS: [(&str, &[(&str, Target)]); 3] = [
    (
        "ms CPU",
        &[(PYTHON, Target::RatioAtMost(0.08)), (PLAIN, Target::RatioAtMost(0.4))],
    ),
    (
        "ms wall",
        &[(PYTHON, Target::RatioAtMost(0.15)), (PLAIN, Target::RatioAtMost(0.4))],
    ),
    ("ms of the first invocation", &[]),
];

pub(super) async fn measure(bench: &Bench) -> Result<Measured, BenchError> {
    let stub = Stub::serve(Duration::ZERO, Some(&bench.certificate))?;
    let mut figures = Vec::new();
    for role in Role::BOTH {
        let start = async |subject| {
            let hosted = bench.host(subject, role, &stub, None)?;
            let before = stub.requests();
            let start = hosted.cold_start(&events::event(role, 1, subject)).await?;
            if stub.requests() == before {
                return Err(BenchError::NoWrite(role.name()));
            }
            Ok([
                millis(hosted.cpu()?),
                start.to_first_response,
                start.of_first_invocation,
            ])
        };
        let starts = in_turn(bench.subjects.all(), bench.size(30, 3), start).await?;
        for (index, (unit, targets)) in UNITS.into_iter().enumerate() {
            figures.extend(starts.medians(&format!("{unit}, {}", role.name()), |start| start[index], targets));
        }
    }
    Ok(figures.into())
}
