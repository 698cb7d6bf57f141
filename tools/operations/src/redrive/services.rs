//! Access to the services that hold failure documents.

use std::time::Duration;

use aws_config::timeout::TimeoutConfig;

/// Default visibility timeout of a message, in seconds.
pub const VISIBILITY_TIMEOUT: u16 = 900;

#[derive(Debug, Clone)]
pub struct Services {
    pub s3_endpoint_url: Option<String>,
    pub sqs_endpoint_url: Option<String>,
    /// Visibility timeout of a message while its documents are processed, in seconds.
    pub visibility_timeout: u16,
}

impl Default for Services {
    fn default() -> Self {
        Self {
            s3_endpoint_url: None,
            sqs_endpoint_url: None,
            visibility_timeout: VISIBILITY_TIMEOUT,
        }
    }
}

/// Timeouts of requests to S3 and SQS: a document can have 6 MB, and a receive request waits for messages.
pub(super) fn timeouts() -> TimeoutConfig {
    TimeoutConfig::builder()
        .connect_timeout(Duration::from_secs(2))
        .read_timeout(Duration::from_secs(10))
        .operation_attempt_timeout(Duration::from_secs(20))
        .operation_timeout(Duration::from_secs(60))
        .build()
}
