//! Updates a second of one process of writer-fn, in SQS batches of 10, where a call takes 5 ms.

use std::time::Instant;

use super::{Bench, CALL, stream_cpu::micros_each, stream_throughput::rate, turns::Turns};
use crate::{
    error::BenchError,
    events,
    figure::{Comparison, Plot, Target, median},
    hosted::{Hosted, Way},
    stub::Stub,
    subject::{PYTHON, Role},
};

const BATCH: usize = 10;

pub(super) async fn measure(bench: &Bench) -> Result<Comparison, BenchError> {
    let stub = Stub::serve(CALL, None)?;
    let way = Way {
        endpoint: stub.endpoint(),
        certificate: None,
    };
    let event = events::queue_batch(BATCH);
    let batches = async |subject: &_| {
        let hosted = Hosted::new(subject, Role::Writer, way, 1, &bench.logs)?;
        hosted.invoke(&event).await?;
        let before = hosted.cpu()?;
        let rounds = if subject.is_ours {
            bench.size(200, 5)
        } else {
            bench.size(20, 2)
        };
        let began = Instant::now();
        let mut answered = began;
        for _ in 0..rounds {
            answered = hosted.invoke(&event).await?;
        }
        let cpu = hosted.cpu()?.saturating_sub(before);
        Ok((
            rate(BATCH * rounds, answered.duration_since(began)),
            micros_each(BATCH * rounds, cpu),
        ))
    };
    let all = Turns::take(bench.subjects.languages(), bench.size(5, 1), batches).await?;
    let rates = |all: &[(f64, f64)]| median(&all.iter().map(|(rate, _)| *rate).collect::<Vec<_>>());
    let cpu = |all: &[(f64, f64)]| median(&all.iter().map(|(_, cpu)| *cpu).collect::<Vec<_>>());
    let mut figures = all.figures("updates a second", rates, &[(PYTHON, Target::RatioAtLeast(8.0))]);
    figures.extend(all.figures("µs CPU an update", cpu, &[]));
    Ok(Comparison {
        name: "writer",
        figures,
        plot: Plot::Bars,
    })
}
