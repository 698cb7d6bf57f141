//! The SDK's client, with its waiting bounded.

pub mod capacity;
pub mod error;
pub mod request_spans;

use std::time::Duration;

use aws_config::{BehaviorVersion, retry::RetryConfig, timeout::TimeoutConfig};
use aws_sdk_dynamodb::Client;

use crate::dynamodb::client::request_spans::RequestSpans;

/// The longest that one operation takes, all its attempts together. The functions' own limits are above it.
pub const OPERATION_TIMEOUT: Duration = Duration::from_secs(8);

/// The client of a function: region, credentials and endpoint as the environment says.
pub async fn from_env() -> Client {
    let config = aws_config::defaults(BehaviorVersion::v2026_01_12())
        .timeout_config(timeouts())
        .retry_config(retries())
        .load()
        .await;
    let config = aws_sdk_dynamodb::config::Builder::from(&config).interceptor(RequestSpans);
    Client::from_conf(config.build())
}

/// The SDK has no read timeout and no operation timeout of its own: a server that hangs would hold a call for ever.
pub fn timeouts() -> TimeoutConfig {
    TimeoutConfig::builder()
        .connect_timeout(Duration::from_secs(1))
        .read_timeout(Duration::from_secs(2))
        .operation_attempt_timeout(Duration::from_secs(2))
        .operation_timeout(OPERATION_TIMEOUT)
        .build()
}

/// Three attempts, as the SDK has by default, with shorter waits: upstream and the stream retry as well.
pub fn retries() -> RetryConfig {
    RetryConfig::standard()
        .with_max_attempts(3)
        .with_initial_backoff(Duration::from_millis(100))
        .with_max_backoff(Duration::from_secs(1))
}
