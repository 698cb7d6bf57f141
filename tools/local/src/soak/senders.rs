//! Senders: each update is sent until it is acknowledged, and some are sent once more, as a queue does.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures::future::try_join_all;
use shared::{dynamodb::read::scan_items::ScanError, json};
use thiserror::Error;
use tokio::sync::Notify;

use super::plan::{Plan, Settings, Step};
use crate::{feed::WRITER, lambda::Lambda};

const MAX_ATTEMPTS: usize = 200;
/// Proportion of acknowledged updates that are sent once more.
const REPEAT_PROBABILITY: f64 = 0.05;
/// Delay before a retry, multiplied by the number of attempts.
const RETRY_DELAY: Duration = Duration::from_millis(5);

#[derive(Debug, Error)]
pub enum SoakError {
    #[error("writer-fn rejected an update: {0}")]
    Rejected(String),
    #[error("an update was not acknowledged in {0} attempts")]
    NotAcknowledged(usize),
    #[error(transparent)]
    Scan(#[from] ScanError),
}

/// The updates that were sent and their acknowledgements.
#[derive(Debug, Default)]
pub(super) struct Sent {
    /// Acknowledged updates, with the version of the acknowledgement.
    pub(super) acknowledged: Vec<(Step, u64)>,
    /// Number of times that an update without acknowledgement was sent again.
    pub(super) retries: usize,
    /// Number of times that an acknowledged update was sent again.
    pub(super) repeats: usize,
    /// Updates acknowledged with two different versions.
    pub(super) twice: Vec<Step>,
}

pub(super) async fn send(lambda: &Lambda, plan: Plan, settings: &Settings) -> Result<Sent, SoakError> {
    let upstream = Upstream {
        lambda,
        plan: Mutex::new(plan),
        sent: Mutex::default(),
        changed: Notify::new(),
    };
    try_join_all((0..settings.senders).map(|_| upstream.sender())).await?;
    Ok(upstream.sent.into_inner().unwrap_or_else(PoisonError::into_inner))
}

struct Upstream<'a> {
    lambda: &'a Lambda,
    plan: Mutex<Plan>,
    sent: Mutex<Sent>,
    changed: Notify,
}

impl Upstream<'_> {
    async fn sender(&self) -> Result<(), SoakError> {
        loop {
            let changed = self.changed.notified();
            let step = {
                let mut plan = lock(&self.plan);
                if plan.is_empty() {
                    return Ok(());
                }
                plan.take()
            };
            let Some(step) = step else {
                changed.await;
                continue;
            };
            self.deliver(&step).await?;
            lock(&self.plan).done(&step);
            self.changed.notify_waiters();
        }
    }

    /// Sends an update until it is acknowledged, and perhaps once more.
    async fn deliver(&self, step: &Step) -> Result<(), SoakError> {
        let version = self.until_acknowledged(step).await?;
        let again = lock(&self.plan).chance(REPEAT_PROBABILITY);
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
        for attempt in 1..=MAX_ATTEMPTS {
            if let Some(version) = self.once(step).await? {
                return Ok(version);
            }
            lock(&self.sent).retries += 1;
            tokio::time::sleep(RETRY_DELAY * u32::try_from(attempt).unwrap_or(u32::MAX)).await;
        }
        Err(SoakError::NotAcknowledged(MAX_ATTEMPTS))
    }

    /// Sends an update once. Returns the acknowledged version, if any.
    async fn once(&self, step: &Step) -> Result<Option<u64>, SoakError> {
        let payload = step.update().to_string().into_bytes();
        let Some(output) = self.lambda.invoke(WRITER, payload).await else {
            return Err(SoakError::Rejected("there is no writer-fn".to_owned()));
        };
        let response = json::parse_bytes(&output.payload).unwrap_or_default();
        match response["errorType"].as_str() {
            Some("InvalidEvent") => Err(SoakError::Rejected(response["errorMessage"].to_string())),
            Some(_) => Ok(None),
            None => Ok(response["Version"].as_u64()),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
