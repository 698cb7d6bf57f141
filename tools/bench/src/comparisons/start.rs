//! From the start of a process to its first poll of the Runtime API.

use std::time::Duration;

use super::{Bench, turns::Turns};
use crate::{
    error::BenchError,
    events,
    figure::{Comparison, Plot, Target, millis, percentile},
    hosted::{Hosted, Way},
    stub::Stub,
    subject::{PYTHON, Role},
};

pub(super) async fn measure(bench: &Bench) -> Result<Comparison, BenchError> {
    let stub = Stub::serve(Duration::ZERO, None)?;
    let way = Way {
        endpoint: stub.endpoint(),
        certificate: None,
    };
    let event = events::none();
    let mut figures = Vec::new();
    for role in Role::BOTH {
        let spawn = async |subject| {
            let hosted = Hosted::new(subject, role, way, 1, &bench.logs)?;
            hosted.invoke(&event).await?;
            let life = hosted.life()?;
            Ok(millis(life.ready.unwrap_or(life.started).duration_since(life.started)))
        };
        let times = Turns::take(bench.subjects.all(), bench.size(50, 5), spawn).await?;
        for (label, share) in [("p50", 0.5), ("p99", 0.99)] {
            figures.extend(times.figures(
                &format!("ms, {label}, {}", role.name()),
                |times| percentile(times, share),
                &[(PYTHON, Target::RatioAtMost(0.03))],
            ));
        }
    }
    Ok(Comparison {
        name: "start",
        figures,
        plot: Plot::Bars,
    })
}
