//! From the start of a process to its first acknowledged write, over TLS.

use std::time::Duration;

use super::{Bench, turns::Turns};
use crate::{
    error::BenchError,
    events,
    figure::{Comparison, Plot, Target, median, millis},
    hosted::{Hosted, Way},
    stub::Stub,
    subject::{PLAIN, PYTHON, Role},
};

/// One cold start, in milliseconds.
struct Cold {
    cpu: f64,
    wall: f64,
    /// From the first poll on: what is done before it, a throttled function does with all of a CPU.
    first_invocation: f64,
}

/// What is told of it: the most of Python's and of the plain build's that it may be.
type Part = (&'static str, fn(&Cold) -> f64, Option<f64>, Option<f64>);
const PARTS: [Part; 3] = [
    ("ms CPU", |cold| cold.cpu, Some(0.08), Some(0.4)),
    ("ms wall", |cold| cold.wall, Some(0.15), Some(0.4)),
    ("ms of the first invocation", |cold| cold.first_invocation, None, None),
];

pub(super) async fn measure(bench: &Bench) -> Result<Comparison, BenchError> {
    let stub = Stub::serve(Duration::ZERO, Some(&bench.certificate))?;
    let way = Way {
        endpoint: stub.endpoint(),
        certificate: Some(&bench.certificate),
    };
    let mut figures = Vec::new();
    for role in Role::BOTH {
        let begin = async |subject| {
            let event = events::one(role, subject);
            let hosted = Hosted::new(subject, role, way, 1, &bench.logs)?;
            let before = stub.requests();
            let written = hosted.invoke(&event).await?;
            if stub.requests() == before {
                return Err(BenchError::Gone("the write".to_owned()));
            }
            let life = hosted.life()?;
            Ok(Cold {
                cpu: millis(hosted.cpu()?),
                wall: millis(written.duration_since(life.started)),
                first_invocation: millis(written.duration_since(life.ready.unwrap_or(life.started))),
            })
        };
        let times = Turns::take(bench.subjects.all(), bench.size(30, 3), begin).await?;
        for (unit, pick, most_of_python, most_of_plain) in PARTS {
            let fold = |times: &[Cold]| median(&times.iter().map(pick).collect::<Vec<_>>());
            let targets = [(PYTHON, most_of_python), (PLAIN, most_of_plain)];
            let targets: Vec<_> = targets
                .into_iter()
                .filter_map(|(peer, most)| Some((peer, Target::RatioAtMost(most?))))
                .collect();
            figures.extend(times.figures(&format!("{unit}, {}", role.name()), fold, &targets));
        }
    }
    Ok(Comparison {
        name: "cold path",
        figures,
        plot: Plot::Bars,
    })
}
