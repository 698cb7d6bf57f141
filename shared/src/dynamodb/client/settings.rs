//! Retries and timeouts of the SDK client.
//!
//! The functions read the number of attempts from the environment, see [`config`](crate::config), and `template.yaml` has a
//! parameter for it. The other values are constants: 2 s are far above the latency of an attempt, and all attempts of a request
//! end before the timeout of each function.

use std::{ops::RangeInclusive, time::Duration};

use aws_config::{retry::RetryConfig, timeout::TimeoutConfig};

/// Retries and timeouts of a client. The defaults are those of the functions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientSettings {
    /// `AWS_MAX_ATTEMPTS`: maximum number of attempts of an operation, including the first. Default 3, the SDK's default.
    pub max_attempts: u32,
    /// Maximum time to open a connection. Default 1 s.
    pub connect_timeout: Duration,
    /// Maximum time from the request to the first byte of the response. Default 2 s.
    pub read_timeout: Duration,
    /// Maximum duration of one attempt. Default 2 s.
    pub attempt_timeout: Duration,
    /// Maximum duration of one operation with all its attempts. Default 8 s, less than the timeout of each
    /// function.
    pub operation_timeout: Duration,
}

impl ClientSettings {
    /// Bounds of `AWS_MAX_ATTEMPTS`.
    pub const ATTEMPTS: RangeInclusive<u32> = 1..=10;

    /// Returns the retry settings for the SDK. The waits are shorter than the SDK's, because clients and the event source
    /// mapping retry too.
    pub fn retries(&self) -> RetryConfig {
        RetryConfig::standard()
            .with_max_attempts(self.max_attempts)
            .with_initial_backoff(Duration::from_millis(100))
            .with_max_backoff(Duration::from_secs(1))
    }

    /// Returns the timeouts for the SDK. By default, the SDK has no read and operation timeout: a call could block forever.
    pub fn timeouts(&self) -> TimeoutConfig {
        TimeoutConfig::builder()
            .connect_timeout(self.connect_timeout)
            .read_timeout(self.read_timeout)
            .operation_attempt_timeout(self.attempt_timeout)
            .operation_timeout(self.operation_timeout)
            .build()
    }
}

impl Default for ClientSettings {
    fn default() -> Self {
        Self {
            max_attempts: 3,
            connect_timeout: Duration::from_secs(1),
            read_timeout: Duration::from_secs(2),
            attempt_timeout: Duration::from_secs(2),
            operation_timeout: Duration::from_secs(8),
        }
    }
}
