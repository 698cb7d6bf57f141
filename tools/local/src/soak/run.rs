//! The promises under fire: senders that repeat each update until it is acknowledged, functions that are killed in the
//! middle of their work, and an audit of what is left.

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
use crate::{report::history, stack::Stack};

/// How often the histories are looked at while they are waited for.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// The longest pause between two looks at whether a process is to be killed.
const KILL_WITHIN: Duration = Duration::from_millis(10);

/// How a soak went.
#[derive(Debug, Clone, Serialize)]
pub struct Summary {
    /// What it can be repeated with.
    pub seed: u64,
    /// How many different updates were sent.
    pub updates: usize,
    /// Of how many entities.
    pub entities: usize,
    /// How often an update was sent again, since it was not acknowledged.
    pub retries: usize,
    /// How often an update was sent again, though it was.
    pub repeats: usize,
    /// How often a process was killed.
    pub kills: usize,
    /// How often the mapping had to deliver again.
    pub redeliveries: u64,
    /// How many version items there are.
    pub versions: usize,
    /// How many seconds the updates and their histories took.
    pub seconds: u64,
    /// What is not as promised.
    pub findings: Vec<String>,
}

/// Runs a soak on a stack of its own.
pub async fn run(stack: &Stack, settings: &Settings) -> Result<Summary, SoakError> {
    let began = Instant::now();
    let plan = Plan::new(settings);
    let sending = senders::send(&stack.lambda, plan, settings);
    let killing = kill(stack, settings);
    // The killing goes on until the histories are complete: stream-fn has to live through it as well.
    let working = async {
        let sent = sending.await?;
        Ok::<_, SoakError>((sent, settled(stack, settings.patience).await?))
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
        entities: table.len(),
        retries: sent.retries,
        repeats: sent.repeats,
        kills,
        redeliveries: counters.retries.load(Ordering::Relaxed),
        versions: audit::versions(&table, stack.digits),
        seconds: began.elapsed().as_secs(),
        findings,
    })
}

/// Waits for a random number of invocations, and kills one process at a random moment behind that.
async fn kill(stack: &Stack, settings: &Settings) {
    if settings.kill_one_in == 0 {
        return std::future::pending().await;
    }
    let next = stack.lambda.invocations() + 1 + fastrand::u64(..2 * settings.kill_one_in);
    loop {
        tokio::time::sleep(KILL_WITHIN.mul_f64(fastrand::f64())).await;
        if stack.lambda.invocations() >= next && stack.lambda.kill_one(|alive| fastrand::usize(..alive)) {
            return;
        }
    }
}

/// The table, once every history in it is complete, or the patience is at its end.
async fn settled(stack: &Stack, patience: Duration) -> Result<history::Collections, SoakError> {
    let began = Instant::now();
    loop {
        let table = history::collect(stack.store.scan_items().await?, stack.digits);
        if history::missing(&table, stack.digits).is_empty() || began.elapsed() > patience {
            return Ok(table);
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}
