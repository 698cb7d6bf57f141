//! Options and summary of the commands that read failure documents.

use operations::redrive::{Services, Tally, VISIBILITY_TIMEOUT};
use serde_json::{Map, Value};

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
    let Value::Object(mut summary) = tally.summary(is_dry) else {
        return Ok(());
    };
    let omitted = summary.shift_remove("Omitted");
    let (lists, counts): (Map<_, _>, Map<_, _>) = summary.into_iter().partition(|(_, value)| value.is_array());
    output.object(&Value::Object(counts))?;
    let lists = lists
        .iter()
        .filter_map(|(name, list)| Some((name.as_str(), list.as_array()?.as_slice())));
    output::print_lists(lists);
    if let Some(omitted) = omitted {
        output::note(&format!("the lists leave out {omitted} more"));
    }
    Ok(())
}
