//! The CPU time that stream-fn uses for a record, user and system, where calls take no time.

use std::time::Duration;

use super::{Bench, turns::Turns};
use crate::{
    error::BenchError,
    events,
    figure::{Comparison, Plot, Target, median},
    hosted::{Hosted, Way},
    stub::Stub,
    subject::{PYTHON, Role},
};

pub(super) async fn measure(bench: &Bench) -> Result<Comparison, BenchError> {
    let records = bench.size(1000, 100);
    let mut figures = Vec::new();
    for (certificate, way_name) in [(None, "HTTP"), (Some(&bench.certificate), "TLS")] {
        let stub = Stub::serve(Duration::ZERO, certificate)?;
        let way = Way {
            endpoint: stub.endpoint(),
            certificate,
        };
        let batches = async |subject: &_| {
            let event = events::stream_batch(records, subject);
            let hosted = Hosted::new(subject, Role::Stream, way, 1, &bench.logs)?;
            hosted.invoke(&event).await?;
            let before = hosted.cpu()?;
            let rounds = if subject.is_ours { bench.size(10, 2) } else { 2 };
            for _ in 0..rounds {
                hosted.invoke(&event).await?;
            }
            Ok(micros_each(records * rounds, hosted.cpu()?.saturating_sub(before)))
        };
        let times = Turns::take(bench.subjects.languages(), bench.size(5, 1), batches).await?;
        figures.extend(times.figures(
            &format!("µs CPU a record, {way_name}"),
            median,
            &[(PYTHON, Target::RatioAtMost(0.04))],
        ));
    }
    Ok(Comparison {
        name: "stream CPU",
        figures,
        plot: Plot::Bars,
    })
}

#[allow(clippy::cast_precision_loss, reason = "some thousands")]
pub(super) fn micros_each(count: usize, time: Duration) -> f64 {
    time.as_secs_f64() * 1e6 / count as f64
}
