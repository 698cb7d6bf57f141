//! Upstream: sends each update until it is acknowledged, and some of them once more.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures::future::try_join_all;
use serde_json::Value;
use shared::dynamodb::read::scan_items::ScanError;
use thiserror::Error;
use tokio::sync::Notify;

use super::plan::{Plan, Settings, Step};
use crate::{feed::WRITER, lambda::Lambda};

/// How often an update is sent at most.
const TRIES: usize = 200;
/// How many of the acknowledged updates are sent once more, as a queue does.
const REPEATED: f64 = 0.05;
/// How long a sender waits before it tries again, times the tries.
const WAIT: Duration = Duration::from_millis(5);

/// Why a soak has no end.
#[derive(Debug, Error)]
pub enum SoakError {
    /// An update that can never be written.
    #[error("writer-fn refused an update: {0}")]
    Refused(String),
    /// An update that was not acknowledged, however often it was sent.
    #[error("an update was not acknowledged in {0} tries")]
    NotAcknowledged(usize),
    /// The table could not be read.
    #[error(transparent)]
    Scan(#[from] ScanError),
}

/// What was sent, and how it was answered.
#[derive(Debug, Default)]
pub(super) struct Sent {
    /// Each update, with the version of its acknowledgement.
    pub(super) acknowledged: Vec<(Step, u64)>,
    /// How often an update was sent again, since it was not acknowledged.
    pub(super) retries: usize,
    /// How often an update was sent again, though it was.
    pub(super) repeats: usize,
    /// Updates that were acknowledged with two versions.
    pub(super) twice: Vec<Step>,
}

/// Sends all of a plan.
pub(super) async fn send(lambda: &Lambda, plan: Plan, settings: &Settings) -> Result<Sent, SoakError> {
    let upstream = Upstream {
        lambda,
        plan: Mutex::new(plan),
        sent: Mutex::default(),
        moved: Notify::new(),
    };
    try_join_all((0..settings.senders).map(|_| upstream.sender())).await?;
    Ok(upstream.sent.into_inner().unwrap_or_else(PoisonError::into_inner))
}

struct Upstream<'a> {
    lambda: &'a Lambda,
    plan: Mutex<Plan>,
    sent: Mutex<Sent>,
    moved: Notify,
}

impl Upstream<'_> {
    async fn sender(&self) -> Result<(), SoakError> {
        loop {
            let moved = self.moved.notified();
            let step = {
                let mut plan = lock(&self.plan);
                if plan.is_empty() {
                    return Ok(());
                }
                plan.take()
            };
            let Some(step) = step else {
                moved.await;
                continue;
            };
            self.deliver(&step).await?;
            lock(&self.plan).done(&step);
            self.moved.notify_waiters();
        }
    }

    /// Until it is acknowledged, and then, perhaps, once more.
    async fn deliver(&self, step: &Step) -> Result<(), SoakError> {
        let version = self.until_acknowledged(step).await?;
        let again = lock(&self.plan).chance(REPEATED);
        lock(&self.sent).acknowledged.push((step.clone(), version));
        if again {
            let repeated = self.until_acknowledged(step).await?;
            let mut sent = lock(&self.sent);
            sent.repeats += 1;
            if repeated != version {
                sent.twice.push(step.clone());
            }
        }
        Ok(())
    }

    async fn until_acknowledged(&self, step: &Step) -> Result<u64, SoakError> {
        for tries in 1..=TRIES {
            if let Some(version) = self.once(step).await? {
                return Ok(version);
            }
            lock(&self.sent).retries += 1;
            tokio::time::sleep(WAIT * u32::try_from(tries).unwrap_or(u32::MAX)).await;
        }
        Err(SoakError::NotAcknowledged(TRIES))
    }

    /// The version of the acknowledgement, if there was one.
    async fn once(&self, step: &Step) -> Result<Option<u64>, SoakError> {
        let payload = step.update().to_string().into_bytes();
        let Some(invoked) = self.lambda.invoke(WRITER, payload).await else {
            return Err(SoakError::Refused("there is no writer-fn".to_owned()));
        };
        let answer: Value = serde_json::from_slice(&invoked.payload).unwrap_or_default();
        match answer["errorType"].as_str() {
            Some("InvalidEvent") => Err(SoakError::Refused(answer["errorMessage"].to_string())),
            Some(_) => Ok(None),
            None => Ok(answer["Version"].as_u64()),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
