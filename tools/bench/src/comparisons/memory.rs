//! Peak resident memory of stream-fn.

use std::time::Duration;

use crate::{
    error::BenchError,
    events,
    figure::{Figure, Measured, Target},
    harness::{Bench, in_turn},
    stub::Stub,
    subject::{PYTHON, Role},
};

/// Maximum growth of the peak from the first tenth of the records to the last: the variance of the allocator.
const MAX_GROWTH: f64 = 1.05;

pub(super) async fn measure(bench: &Bench) -> Result<Measured, BenchError> {
    let stub = Stub::serve(Duration::ZERO, None)?;
    let batch = bench.size(1000, 100);
    let peaks = async |subject: &_| {
        let event = events::event(Role::Stream, batch, subject);
        let hosted = bench.host(subject, Role::Stream, &stub, None)?;
        let mut peaks = [0.0; 2];
        for (peak, batches) in peaks.iter_mut().zip([10, 90]) {
            for _ in 0..batches {
                hosted.invoke(&event).await?;
            }
            *peak = hosted.peak_memory()?;
        }
        Ok(peaks)
    };
    let peaks = in_turn(bench.subjects.with_tuned(), 1, peaks).await?;
    let records = 100 * batch;
    let target = (PYTHON, Target::RatioAtMost(0.2));
    let mut figures = peaks.medians(&format!("MB resident, {records} records"), |[_, peak]| *peak, &[target]);
    let unit = format!("MB at {records} records, beside those at {}", records / 10);
    figures.push(
        Figure::new(unit, peaks.percentile(0, 0.5, |[_, peak]| *peak))
            .compared_with("vzero, a tenth", peaks.percentile(0, 0.5, |[tenth, _]| *tenth))
            .with_target(Target::RatioAtMost(MAX_GROWTH)),
    );
    Ok(figures.into())
}
