//! How long it takes from the acknowledgement of a write until its version can be read, in the local stack, at 100 updates a
//! second.

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
    domain::{
        entity::EntityId,
        update::{Ordering, Update},
    },
    dynamodb::{
        Store,
        write::{WriteOptions, WriteOutcome},
    },
};

use super::Bench;
use crate::{
    error::BenchError,
    figure::{Comparison, Figure, Plot, Target, median, millis, percentile},
    subject::root,
    table::failed,
};

const EVERY: Duration = Duration::from_millis(10);
const ENTITIES: u32 = 50;
/// How often a version is looked for at first. Later less often, so that looking does not become the load: what is measured
/// is up to a tenth too long, or so much.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// Lambda polls a shard four times a second.
const POLL: Duration = Duration::from_millis(250);
const PATIENCE: Duration = Duration::from_secs(60);

pub(super) async fn measure(bench: &Bench) -> Result<Comparison, BenchError> {
    let stack = Stack::start(Options {
        template: Template::read(&root().join("template.yaml"), &[]).map_err(failed)?,
        dynamodb_port: 0,
        lambda_port: 0,
        data_dir: None,
        failed: None,
        sqs_endpoint: None,
        s3_endpoint: None,
        program: function::this_program(),
        bootstraps: BTreeMap::new(),
    })
    .await
    .map_err(failed)?;
    // The function starts with the first one.
    one(&stack.store, 0).await?;
    let updates: u32 = bench.size(1_000, 200);
    let mut ticks = tokio::time::interval(EVERY);
    let mut running = Vec::new();
    for number in 1..=updates {
        ticks.tick().await;
        let store = stack.store.clone();
        running.push(tokio::spawn(async move { one(&store, number).await }));
    }
    let seen = try_join_all(running).await.map_err(failed)?;
    let seen = seen.into_iter().collect::<Result<Vec<_>, _>>()?;
    let (calls, lags): (Vec<_>, Vec<_>) = seen.iter().map(|(call, lag)| (millis(*call), millis(*lag))).unzip();
    let call = median(&calls);
    let most = millis(POLL) + 2.0 * call;
    Ok(Comparison {
        name: "history lag",
        figures: vec![
            Figure::new("ms from written to readable, p50", median(&lags)).aiming_at(Target::AtMost(most.round())),
            Figure::new("ms from written to readable, p99", percentile(&lags, 0.99)),
            Figure::new("ms a write, p50", call),
        ],
        plot: Plot::Bars,
    })
}

/// Writes an update. How long that took, and how long it took from there until the version was there.
async fn one(store: &Store, number: u32) -> Result<(Duration, Duration), BenchError> {
    let id = format!("Equipment#{}", number % ENTITIES);
    let entity = EntityId::new(id.as_str()).map_err(failed)?;
    let update = json!({"ID": id, "State": "WARNING1", "N": number});
    let update = Update::parse(update, &format!("lag-{number}"), Ordering::Arrival).map_err(failed)?;
    let began = Instant::now();
    let outcome = store.write(&update, WriteOptions::default()).await.map_err(failed)?;
    let written = Instant::now();
    // A duplicate was written too, by an attempt whose answer was lost.
    let (WriteOutcome::Written { version } | WriteOutcome::Duplicate { version }) = outcome else {
        return Err(BenchError::Table(format!("an update became {outcome:?}")));
    };
    let key = store.digits().version_key(version);
    while store.get(&entity, &key, true).await.map_err(failed)?.is_none() {
        if written.elapsed() > PATIENCE {
            return Err(BenchError::Table("a version did not come into the history".to_owned()));
        }
        tokio::time::sleep(LOOK_EVERY.max(written.elapsed() / 10)).await;
    }
    Ok((written.duration_since(began), written.elapsed()))
}
