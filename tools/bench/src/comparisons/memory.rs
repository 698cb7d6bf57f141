//! Peak resident memory of stream-fn.

use std::time::Duration;

use crate::{
    error::BenchError,
    events,
    figure::{Figure, Target},
    harness::{Bench, Measured, in_turn},
    stub::Stub,
    subject::{PYTHON, Role},
};

/// Maximum growth of the peak from the first tenth of the records to the last: the variance of the allocator.
const MAX_GROWTH: f64 = 1.05;

pub(super) async fn measure(bench: &Bench) -> Result<Measured, BenchError> {
    let stub = Stub::serve(Duration::ZERO, None)?;
    let batch = bench.size(1000, 100);
    let peaks = async |subject: &_| {
        let event = events::stream_batch(batch, subject);
        let hosted = bench.host(subject, Role::Stream, &stub)?;
        for _ in 0..10 {
            hosted.invoke(&event).await?;
        }
        let tenth = hosted.peak_memory()?;
        for _ in 10..100 {
            hosted.invoke(&event).await?;
        }
        Ok((megabytes(tenth), megabytes(hosted.peak_memory()?)))
    };
    let peaks = in_turn(bench.subjects.with_tuned(), 1, peaks).await?;
    let records = 100 * batch;
    let target = (PYTHON, Target::RatioAtMost(0.2));
    let mut figures = peaks.medians(&format!("MB resident, {records} records"), |(_, peak)| *peak, &[target]);
    figures.extend(peaks.first().map(|(tenth, peak)| {
        Figure::new(
            format!("MB at {records} records, beside those at {}", records / 10),
            *peak,
        )
        .compared_with("vzero, a tenth", *tenth)
        .with_target(Target::RatioAtMost(MAX_GROWTH))
    }));
    Ok(figures.into())
}

#[allow(clippy::cast_precision_loss, reason = "a few million")]
fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}
