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
    let summary = tally.summary(is_dry);
    let Some(members) = summary.as_object().filter(|_| !output.is_json()) else {
        return output.object(&summary);
    };
    let members = members.iter().filter(|(name, _)| *name != "Omitted");
    let (lists, counts): (Vec<_>, Vec<_>) = members.partition(|(_, value)| value.is_array());
    let counts = counts.into_iter().map(|(name, count)| (name.clone(), count.clone()));
    output.object(&Value::Object(counts.collect::<Map<_, _>>()))?;
    for (name, list) in lists {
        for one in list.as_array().into_iter().flatten() {
            output::note(&format!("{name}: {one}"));
        }
    }
    if let Some(omitted) = summary.get("Omitted") {
        output::note(&format!("the lists leave out {omitted} more"));
    }
    Ok(())
}
