//! Options of commands that read failure documents.

use operations::redrive::{Services, VISIBILITY_TIMEOUT};

/// Access to S3 and SQS.
#[derive(Debug, clap::Args)]
pub(crate) struct ServiceOptions {
    /// Endpoint of S3 [default: AWS]
    #[arg(long, value_name = "URL")]
    s3_endpoint_url: Option<String>,
    /// Endpoint of SQS [default: AWS]
    #[arg(long, value_name = "URL")]
    sqs_endpoint_url: Option<String>,
    /// Visibility timeout of a message while its documents are processed, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = VISIBILITY_TIMEOUT, value_parser = clap::value_parser!(u16).range(1..=43200))]
    visibility_timeout: u16,
}

impl ServiceOptions {
    pub(super) fn to_services(&self) -> Services {
        Services {
            s3_endpoint_url: self.s3_endpoint_url.clone(),
            sqs_endpoint_url: self.sqs_endpoint_url.clone(),
            visibility_timeout: self.visibility_timeout,
        }
    }
}
