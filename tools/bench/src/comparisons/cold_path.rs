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
            let wall = written.duration_since(hosted.life()?.started);
            Ok((millis(hosted.cpu()?), millis(wall)))
        };
        let times = Turns::take(bench.subjects.all(), bench.size(30, 3), begin).await?;
        let all =
            |times: &[(f64, f64)], pick: fn(&(f64, f64)) -> f64| median(&times.iter().map(pick).collect::<Vec<_>>());
        let name = role.name();
        figures.extend(times.figures(
            &format!("ms CPU, {name}"),
            |times| all(times, |(cpu, _)| *cpu),
            &[(PYTHON, Target::RatioAtMost(0.08)), (PLAIN, Target::RatioAtMost(0.4))],
        ));
        figures.extend(times.figures(
            &format!("ms wall, {name}"),
            |times| all(times, |(_, wall)| *wall),
            &[(PYTHON, Target::RatioAtMost(0.15)), (PLAIN, Target::RatioAtMost(0.4))],
        ));
    }
    Ok(Comparison {
        name: "cold path",
        figures,
        plot: Plot::Bars,
    })
}
