//! Throughput and CPU time of one process of writer-fn, in SQS batches of 10, if each request takes 5 ms.

use crate::{
    error::BenchError,
    events,
    figure::Target,
    harness::{Bench, LATENCY, Measured, in_turn},
    stub::Stub,
    subject::{PYTHON, PYTHON_TUNED, Role, Subject},
};

const BATCH_SIZE: usize = 10;

pub(super) async fn measure(bench: &Bench) -> Result<Measured, BenchError> {
    let stub = Stub::serve(LATENCY, None)?;
    let event = events::queue_batch(BATCH_SIZE);
    let batches = async |subject: &Subject| {
        let count = if subject.is_sequential {
            bench.size(20, 2)
        } else {
            bench.size(200, 5)
        };
        bench
            .host(subject, Role::Writer, &stub, 1)?
            .batches(&event, BATCH_SIZE, count)
            .await
    };
    let measured = in_turn(bench.subjects.with_tuned(), bench.size(5, 1), batches).await?;
    let throughput = [
        (PYTHON, Target::RatioAtLeast(8.0)),
        (PYTHON_TUNED, Target::RatioAtLeast(4.0)),
    ];
    let cpu = [(PYTHON_TUNED, Target::RatioAtMost(0.1))];
    let mut figures = measured.medians("updates a second", |batches| batches.per_second, &throughput);
    figures.extend(measured.medians("µs CPU an update", |batches| batches.cpu_micros, &cpu));
    Ok(figures.into())
}
