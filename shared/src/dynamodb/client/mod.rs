//! SDK client with timeouts and retries.

pub mod capacity;
pub mod error;
pub mod request_spans;

use std::time::Duration;

use aws_config::{BehaviorVersion, retry::RetryConfig, timeout::TimeoutConfig};
use aws_sdk_dynamodb::Client;

use crate::dynamodb::client::request_spans::RequestSpans;

/// Maximum duration of one operation with all its attempts. The Lambda functions' timeouts are longer.
pub const OPERATION_TIMEOUT: Duration = Duration::from_secs(8);

/// Creates the client of a function. Region, credentials and endpoint come from the environment.
pub async fn from_env() -> Client {
    let config = aws_config::defaults(BehaviorVersion::v2026_01_12())
        .timeout_config(timeouts())
        .retry_config(retries())
        .load()
        .await;
    let config = aws_sdk_dynamodb::config::Builder::from(&config).interceptor(RequestSpans);
    Client::from_conf(config.build())
}

/// Returns timeouts for the client. By default, the SDK has no read and operation timeout: a call could block forever.
pub fn timeouts() -> TimeoutConfig {
    TimeoutConfig::builder()
        .connect_timeout(Duration::from_secs(1))
        .read_timeout(Duration::from_secs(2))
        .operation_attempt_timeout(Duration::from_secs(2))
        .operation_timeout(OPERATION_TIMEOUT)
        .build()
}

/// Returns the retry settings: three attempts, the SDK's default, with shorter waits, because clients and the event source
/// mapping retry too.
pub fn retries() -> RetryConfig {
    RetryConfig::standard()
        .with_max_attempts(3)
        .with_initial_backoff(Duration::from_millis(100))
        .with_max_backoff(Duration::from_secs(1))
}
