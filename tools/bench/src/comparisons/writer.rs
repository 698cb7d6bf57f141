//! Throughput and CPU time of one process of writer-fn, in SQS batches, if each request takes 5 ms.

use crate::{
    error::BenchError,
    events,
    figure::{Figure, Target},
    harness::{Bench, LATENCY, Measured, in_turn},
    stub::Stub,
    subject::{PYTHON, PYTHON_TUNED, Role, Subject},
};

/// Batch size of the template, and one at which the CPU limits the throughput instead of the latency.
const BATCH_SIZES: [(usize, &str); 2] = [(10, ""), (100, ", batches of 100")];
/// Maximum CPU time of an update, in microseconds.
const MAX_CPU: f64 = 150.0;

pub(super) async fn measure(bench: &Bench) -> Result<Measured, BenchError> {
    let stub = Stub::serve(LATENCY, None)?;
    let throughput = [
        (PYTHON, Target::RatioAtLeast(8.0)),
        (PYTHON_TUNED, Target::RatioAtLeast(4.0)),
    ];
    let cpu = [(PYTHON_TUNED, Target::RatioAtMost(0.1))];
    let mut figures = Vec::new();
    for (batch_size, label) in BATCH_SIZES {
        let event = events::queue_batch(batch_size);
        let batches = async |subject: &Subject| {
            let updates = if subject.is_sequential {
                bench.size(200, 20)
            } else {
                bench.size(2000, 50)
            };
            bench
                .host(subject, Role::Writer, &stub)?
                .batches(&event, batch_size, (updates / batch_size).max(1))
                .await
        };
        let measured = in_turn(bench.subjects.with_tuned(), bench.size(5, 1), batches).await?;
        figures.extend(measured.medians(
            &format!("updates a second{label}"),
            |batches| batches.per_second,
            &throughput,
        ));
        let unit = format!("µs CPU an update{label}");
        figures.extend(measured.medians(&unit, |batches| batches.cpu_micros, &cpu));
        let ours = measured.percentile_of_ours(0.5, |batches| batches.cpu_micros);
        figures.push(Figure::new(unit, ours).with_target(Target::AtMost(MAX_CPU)));
    }
    Ok(figures.into())
}
