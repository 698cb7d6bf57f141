//! Options and summary of the commands that read failure documents.

use operations::redrive::{Services, Tally, VISIBILITY_TIMEOUT};

use crate::{
    error::CliError,
    output::{self, Output},
};

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

/// Prints the counts, and what is not in place.
pub(super) fn print_tally(tally: &Tally, is_dry: bool, output: &Output) -> Result<(), CliError> {
    if output.is_json() {
        return output.object(&tally.summary(is_dry));
    }
    output.object(&tally.counts(is_dry))?;
    output::print_lists(tally.lists());
    if tally.omitted() > 0 {
        output::note(&format!("the lists leave out {} more", tally.omitted()));
    }
    output::print_lists([("Destinations", &*tally.destinations())]);
    Ok(())
}
