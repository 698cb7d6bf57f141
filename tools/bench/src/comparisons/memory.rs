//! The most memory that stream-fn has resident.

use std::time::Duration;

use super::{Bench, turns::Turns};
use crate::{
    error::BenchError,
    events,
    figure::{Comparison, Figure, Plot, Target},
    hosted::{Hosted, Way},
    stub::Stub,
    subject::{PYTHON, Role},
};

/// How far the peak may move between the first tenth of the records and the last: what an allocator does by chance.
const FLAT: f64 = 1.05;

pub(super) async fn measure(bench: &Bench) -> Result<Comparison, BenchError> {
    let stub = Stub::serve(Duration::ZERO, None)?;
    let way = Way {
        endpoint: stub.endpoint(),
        certificate: None,
    };
    let batch = bench.size(1000, 100);
    let peaks = async |subject: &_| {
        let event = events::stream_batch(batch, subject);
        let hosted = Hosted::new(subject, Role::Stream, way, 1, &bench.logs)?;
        for _ in 0..10 {
            hosted.invoke(&event).await?;
        }
        let tenth = hosted.peak_memory()?;
        for _ in 10..100 {
            hosted.invoke(&event).await?;
        }
        Ok((megabytes(tenth), megabytes(hosted.peak_memory()?)))
    };
    let peaks = Turns::take(bench.subjects.languages(), 1, peaks).await?;
    let whole = 100 * batch;
    let mut figures = peaks.figures(
        &format!("MB resident, {whole} records"),
        |peaks| peaks[0].1,
        &[(PYTHON, Target::RatioAtMost(0.25))],
    );
    figures.extend(peaks.first().map(|(tenth, peak)| {
        Figure::new(format!("MB at {whole} records, beside those at {}", whole / 10), *peak)
            .beside("vzero, a tenth", *tenth)
            .aiming_at(Target::RatioAtMost(FLAT))
    }));
    Ok(Comparison {
        name: "memory",
        figures,
        plot: Plot::Bars,
    })
}

#[allow(clippy::cast_precision_loss, reason = "a few million")]
fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}
