//! Polling.

use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Calls `poll` until it returns a value. Panics with `what` after a minute.
pub async fn eventually<T>(what: &str, poll: impl AsyncFn() -> Option<T>) -> T {
    let polled = async {
        loop {
            if let Some(value) = poll().await {
                return value;
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    };
    let value = tokio::time::timeout(TIMEOUT, polled).await;
    value.unwrap_or_else(|_| panic!("no {what} within {TIMEOUT:?}"))
}
