//! One run: sends the updates, kills processes until all histories are complete, and audits the table.

use std::{
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use serde::Serialize;

use super::{
    audit,
    plan::{Plan, Settings},
    senders::{self, SoakError},
};
use shared::domain::entity::is_reserved;

use crate::{report::history, stack::Stack};

const CHECK_INTERVAL: Duration = Duration::from_millis(500);
/// Maximum interval between two checks for the next kill.
const MAX_KILL_INTERVAL: Duration = Duration::from_millis(10);

#[derive(Debug, Clone, Serialize)]
pub struct Summary {
    pub seed: u64,
    pub updates: usize,
    pub entities: usize,
    pub retries: usize,
    pub repeats: usize,
    pub kills: usize,
    /// Number of retries of the mapping.
    pub redeliveries: u64,
    pub versions: usize,
    pub seconds: u64,
    pub findings: Vec<String>,
}

pub async fn run(stack: &Stack, settings: &Settings) -> Result<Summary, SoakError> {
    let started = Instant::now();
    let plan = Plan::new(settings);
    let sending = senders::send(&stack.lambda, plan, settings);
    let killing = kill(stack, settings);
    // Kills continue until the histories are complete, so that they also hit stream-fn.
    let working = async {
        let sent = sending.await?;
        Ok::<_, SoakError>((sent, settled(stack, settings.timeout).await?))
    };
    tokio::pin!(killing, working);
    let mut kills = 0;
    let (sent, table) = loop {
        tokio::select! {
            done = &mut working => break done?,
            () = killing.as_mut() => kills += 1,
        }
        killing.set(kill(stack, settings));
    };
    let counters = &stack.mapping.counters;
    let mut findings = audit::audit(&table, &sent, stack.digits);
    match counters.documents.load(Ordering::Relaxed) {
        0 => {}
        documents => findings.push(format!("{documents} failure document(s)")),
    }
    Ok(Summary {
        seed: settings.seed,
        updates: sent.acknowledged.len(),
        // The table's layout belongs to no entity.
        entities: table.keys().filter(|key| !is_reserved(key)).count(),
        retries: sent.retries,
        repeats: sent.repeats,
        kills,
        redeliveries: counters.retries.load(Ordering::Relaxed),
        versions: audit::versions(&table, stack.digits),
        seconds: started.elapsed().as_secs(),
        findings,
    })
}

/// Waits for a random number of invocations, and then kills one process at a random moment.
async fn kill(stack: &Stack, settings: &Settings) {
    if settings.kill_one_in == 0 {
        return std::future::pending().await;
    }
    let next = stack.lambda.invocations() + 1 + fastrand::u64(..2 * settings.kill_one_in);
    loop {
        tokio::time::sleep(MAX_KILL_INTERVAL.mul_f64(fastrand::f64())).await;
        if stack.lambda.invocations() >= next && stack.lambda.kill_one(|alive| fastrand::usize(..alive)) {
            return;
        }
    }
}

/// Waits until every history is complete or the timeout has passed. Returns the table.
async fn settled(stack: &Stack, timeout: Duration) -> Result<history::Collections, SoakError> {
    let started = Instant::now();
    loop {
        let table = history::collect(stack.store.scan_items().await?, stack.digits);
        if history::missing(&table, stack.digits).is_empty() || started.elapsed() > timeout {
            return Ok(table);
        }
        tokio::time::sleep(CHECK_INTERVAL).await;
    }
}
