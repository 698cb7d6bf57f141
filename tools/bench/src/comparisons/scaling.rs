//! Throughput of 1, 2, 4 and 8 concurrent processes of stream-fn, compared with linear scaling, if each request takes 5 ms.

use std::time::Instant;

use futures::future::try_join_all;

use crate::{
    error::BenchError,
    events,
    figure::{Figure, Plot},
    harness::{Bench, LATENCY, Measured},
    stub::Stub,
    subject::Role,
};

const PROCESSES: [u8; 4] = [1, 2, 4, 8];
/// Small, so that requests limit the throughput, and not the few cores of this machine.
const BATCH_SIZE: u8 = 100;

pub(super) async fn measure(bench: &Bench) -> Result<Measured, BenchError> {
    let event = events::stream_batch(BATCH_SIZE.into(), &bench.subjects.ours);
    let (mut figures, mut measured) = (Vec::new(), Vec::new());
    let mut linear: Vec<(f64, f64)> = Vec::new();
    for processes in PROCESSES {
        bench.progress.show(&format!("scaling: {processes} processes"));
        let stub = Stub::serve(LATENCY, None)?;
        let hosted = bench.host(&bench.subjects.ours, Role::Stream, &stub, processes.into())?;
        // Concurrent invocations start a process each.
        try_join_all((0..processes).map(|_| hosted.invoke(&event))).await?;
        let batches: u8 = bench.size(50, 5);
        let cpu_before = hosted.cpu()?;
        let began = Instant::now();
        try_join_all((0..processes).map(|_| async {
            for _ in 0..batches {
                hosted.invoke(&event).await?;
            }
            Ok::<_, BenchError>(())
        }))
        .await?;
        let seconds = began.elapsed().as_secs_f64();
        let cores = hosted.cpu()?.saturating_sub(cpu_before).as_secs_f64() / seconds;
        let processes = f64::from(processes);
        let rate = f64::from(BATCH_SIZE) * f64::from(batches) * processes / seconds;
        let expected = linear.first().map_or(rate, |(_, one)| one * processes);
        measured.push((processes, rate));
        linear.push((processes, expected));
        figures.extend([
            Figure::new(format!("records a second, {processes} processes"), rate)
                .compared_with("as many times one", expected),
            Figure::new(format!("cores in use, {processes} processes"), cores),
        ]);
    }
    let plot = Plot::Lines {
        x: "processes",
        y: "records a second",
        series: vec![
            ("measured".to_owned(), measured),
            ("as many times one".to_owned(), linear),
        ],
    };
    Ok(Measured { figures, plot })
}
