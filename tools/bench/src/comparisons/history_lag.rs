//! Time from the response of a write until its version can be read, in the local stack, at 100 updates a second.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use futures::future::try_join_all;
use local::{
    function,
    stack::{Options, Stack},
    template::Template,
};
use serde_json::json;
use shared::{
    domain::update::{Ordering, Update},
    dynamodb::{
        Store,
        write::{WriteOptions, WriteOutcome},
    },
};

use crate::{
    error::{BenchError, cannot},
    figure::{Figure, Target, median, millis, percentile},
    harness::{Bench, Measured},
    subject::root,
};

const UPDATE_INTERVAL: Duration = Duration::from_millis(10);
const ENTITIES: u32 = 50;
/// Interval of the first reads of a version. It grows to a tenth of the time since the write, so that the reads add little load; a measured
/// time is too long by at most one interval.
const MIN_READ_INTERVAL: Duration = Duration::from_millis(10);
/// Lambda polls a shard four times a second.
const POLL: Duration = Duration::from_millis(250);
const LAG_TIMEOUT: Duration = Duration::from_secs(60);

pub(super) async fn measure(bench: &Bench) -> Result<Measured, BenchError> {
    let stack = Stack::start(Options {
        template: Template::read(&root().join("template.yaml"), &[]).map_err(cannot("read template.yaml"))?,
        dynamodb_port: 0,
        lambda_port: 0,
        data_dir: None,
        failed: None,
        program: function::this_program(),
        bootstraps: BTreeMap::new(),
    })
    .await
    .map_err(cannot("start the local stack"))?;
    // The first update starts the process of stream-fn.
    write_and_wait(&stack.store, 0).await?;
    let updates: u32 = bench.size(1_000, 200);
    let mut ticks = tokio::time::interval(UPDATE_INTERVAL);
    let mut running = Vec::new();
    for number in 1..=updates {
        ticks.tick().await;
        let store = stack.store.clone();
        running.push(tokio::spawn(async move { write_and_wait(&store, number).await }));
    }
    let measured = try_join_all(running).await.map_err(cannot("join the updates"))?;
    let measured = measured.into_iter().collect::<Result<Vec<_>, _>>()?;
    let (calls, lags): (Vec<_>, Vec<_>) = measured.iter().map(|(call, lag)| (millis(*call), millis(*lag))).unzip();
    let call = median(&calls);
    let max = millis(POLL) + 2.0 * call;
    let figures = vec![
        Figure::new("ms from written to readable, p50", median(&lags)).with_target(Target::AtMost(max.round())),
        Figure::new("ms from written to readable, p99", percentile(&lags, 0.99)),
        Figure::new("ms a write, p50", call),
    ];
    Ok(figures.into())
}

/// Writes an update, and returns the time of the write, and the time from its response until the version can be read.
async fn write_and_wait(store: &Store, number: u32) -> Result<(Duration, Duration), BenchError> {
    let id = format!("Equipment#{}", number % ENTITIES);
    let update = json!({"ID": id, "State": "WARNING1", "N": number});
    let update =
        Update::parse(update, &format!("lag-{number}"), Ordering::Arrival).map_err(cannot("parse an update"))?;
    let began = Instant::now();
    let outcome = store
        .write(&update, WriteOptions::default())
        .await
        .map_err(cannot("write an update"))?;
    let written = Instant::now();
    // A duplicate was written by an earlier attempt whose response was lost.
    let (WriteOutcome::Written { version } | WriteOutcome::Duplicate { version }) = outcome else {
        return Err(BenchError::UnexpectedResult(format!("an update was {outcome:?}")));
    };
    let key = store.digits().version_key(version);
    while store
        .get(&update.entity, &key, true)
        .await
        .map_err(cannot("read a version"))?
        .is_none()
    {
        if written.elapsed() > LAG_TIMEOUT {
            return Err(BenchError::UnexpectedResult(format!(
                "there is no version after {} s",
                LAG_TIMEOUT.as_secs()
            )));
        }
        tokio::time::sleep(MIN_READ_INTERVAL.max(written.elapsed() / 10)).await;
    }
    Ok((written.duration_since(began), written.elapsed()))
}
