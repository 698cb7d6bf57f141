//! Records a second of one process of stream-fn, in batches of 1,000, where a call takes 5 ms.

use std::time::{Duration, Instant};

use super::{Bench, CALL, turns::Turns};
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
        let stub = Stub::serve(CALL, certificate)?;
        let way = Way {
            endpoint: stub.endpoint(),
            certificate,
        };
        let batch = async |subject: &_| {
            let event = events::stream_batch(records, subject);
            let hosted = Hosted::new(subject, Role::Stream, way, 1, &bench.logs)?;
            // The first one opens the connections.
            hosted.invoke(&event).await?;
            let began = Instant::now();
            let rounds = if subject.is_ours { bench.size(10, 2) } else { 1 };
            let mut answered = began;
            for _ in 0..rounds {
                answered = hosted.invoke(&event).await?;
            }
            Ok(rate(records * rounds, answered.duration_since(began)))
        };
        let rates = Turns::take(bench.subjects.languages(), bench.size(3, 1), batch).await?;
        figures.extend(rates.figures(
            &format!("records a second, {way_name}"),
            median,
            &[(PYTHON, Target::RatioAtLeast(50.0))],
        ));
    }
    Ok(Comparison {
        name: "stream throughput",
        figures,
        plot: Plot::Bars,
    })
}

#[allow(clippy::cast_precision_loss, reason = "some thousands")]
pub(super) fn rate(count: usize, time: Duration) -> f64 {
    count as f64 / time.as_secs_f64()
}
