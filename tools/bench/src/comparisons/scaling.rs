//! Records a second of several processes of stream-fn side by side, where a call takes 5 ms: does it grow as it should?

use std::time::Instant;

use futures::future::try_join_all;

use super::{Bench, CALL, stream_throughput::rate};
use crate::{
    error::BenchError,
    events,
    figure::{Comparison, Figure, Plot},
    hosted::{Hosted, Way},
    stub::Stub,
    subject::Role,
};

const PROCESSES: [usize; 4] = [1, 2, 4, 8];
/// Small enough that it is the calls that take the time, and not this machine's few cores.
const BATCH: usize = 100;

pub(super) async fn measure(bench: &Bench) -> Result<Comparison, BenchError> {
    let event = events::stream_batch(BATCH, &bench.subjects.ours);
    let mut points = Vec::new();
    for processes in PROCESSES {
        bench.progress.doing(&format!("scaling: {processes} processes"));
        let stub = Stub::serve(CALL, None)?;
        let way = Way {
            endpoint: stub.endpoint(),
            certificate: None,
        };
        let hosted = Hosted::new(&bench.subjects.ours, Role::Stream, way, processes, &bench.logs)?;
        // All at once, so that each has a process of its own.
        try_join_all((0..processes).map(|_| hosted.invoke(&event))).await?;
        let rounds = bench.size(50, 5);
        let before = hosted.cpu()?;
        let began = Instant::now();
        try_join_all((0..processes).map(|_| async {
            for _ in 0..rounds {
                hosted.invoke(&event).await?;
            }
            Ok::<_, BenchError>(())
        }))
        .await?;
        let took = began.elapsed();
        let cpu = hosted.cpu()?.saturating_sub(before);
        points.push((
            processes,
            rate(BATCH * rounds * processes, took),
            cpu.as_secs_f64() / took.as_secs_f64(),
        ));
    }
    let one = points[0].1;
    #[allow(clippy::cast_precision_loss, reason = "up to 8")]
    let as_f64 = |processes: usize| processes as f64;
    let figures = points.iter().flat_map(|(processes, rate, cores)| {
        let formula = one * as_f64(*processes);
        [
            Figure::new(format!("records a second, {processes} processes"), *rate).beside("as many times one", formula),
            Figure::new(format!("cores in use, {processes} processes"), *cores),
        ]
    });
    let measured = points.iter().map(|(processes, rate, _)| (as_f64(*processes), *rate));
    let formula = points
        .iter()
        .map(|(processes, ..)| (as_f64(*processes), one * as_f64(*processes)));
    Ok(Comparison {
        name: "scaling",
        figures: figures.collect(),
        plot: Plot::Lines {
            x: "processes",
            y: "records a second",
            series: vec![
                ("measured".to_owned(), measured.collect()),
                ("as many times one".to_owned(), formula.collect()),
            ],
        },
    })
}
