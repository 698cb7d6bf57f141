//! Explanation of failed requests: the table or endpoint, the cause and the next step.

use std::error::Error;

use aws_config::SdkConfig;
use operations::error::OperationError;
use shared::dynamodb::client::error::{ServiceError, Unsent};

use crate::{connection::is_this_machine, error::CliError, globals::Globals};

/// Exit codes of explained errors.
const USAGE: u8 = 2;
const NOT_FOUND: u8 = 3;
const UNAVAILABLE: u8 = 5;

/// The table of a command and its endpoint.
pub(crate) struct Place {
    table: String,
    history: Option<String>,
    region: Option<String>,
    endpoint_url: Option<String>,
}

impl Place {
    pub(crate) fn new(globals: &Globals, sdk: &SdkConfig) -> Self {
        Self {
            table: globals.table.clone(),
            history: None,
            region: sdk.region().map(ToString::to_string),
            endpoint_url: globals
                .endpoint_url
                .clone()
                .or_else(|| sdk.endpoint_url().map(str::to_owned)),
        }
    }

    /// Takes the names of the tables that the command uses.
    pub(crate) fn with_tables(mut self, table: &str, history: Option<&str>) -> Self {
        table.clone_into(&mut self.table);
        self.history = history.map(str::to_owned);
        self
    }

    /// Explains an error, if its cause is known. Other errors are unchanged.
    pub(crate) fn explain(&self, error: CliError) -> CliError {
        let explained = match &error {
            CliError::Operation(OperationError::NoEntity(id)) => Some((
                NOT_FOUND,
                format!(
                    "there is no {id} in {}: check the key and --table",
                    self.table_with_place()
                ),
            )),
            error => service_error(error).and_then(|failed| self.of_request(failed)),
        };
        match explained {
            Some((exit_code, text)) => CliError::Explained {
                text,
                exit_code,
                source: Box::new(error),
            },
            None => error,
        }
    }

    fn of_request(&self, failed: &ServiceError) -> Option<(u8, String)> {
        let cause = || failed.source().map(ToString::to_string).unwrap_or_default();
        if let Some(unsent) = failed.unsent {
            return Some(match unsent {
                Unsent::NotConnected => (UNAVAILABLE, self.not_connected(&cause())),
                Unsent::NoCredentials => (
                    UNAVAILABLE,
                    "no AWS credentials found: run `aws sso login` or `aws configure`, or choose a profile with --profile; for the \
                     local stack, use --endpoint-url http://127.0.0.1:8000"
                        .to_owned(),
                ),
                Unsent::NoRegion => (USAGE, "no AWS Region: use --region, or set AWS_REGION".to_owned()),
                Unsent::InvalidEndpoint => (
                    USAGE,
                    format!("the endpoint is not a URL ({}): correct AWS_ENDPOINT_URL, or use --endpoint-url", cause()),
                ),
            });
        }
        let code = failed.code.as_deref()?;
        match code {
            // Other services use the same code for other resources.
            "ResourceNotFoundException" if !failed.operation.contains("Stream") => {
                let history = self
                    .history
                    .as_ref()
                    .map(|history| format!(", or no history table {history}"));
                let history = history.unwrap_or_default();
                let text = format!(
                    "there is no table {}{history}: correct --table{}, or run `vzero admin table create`",
                    self.table_with_place(),
                    if self.region.is_some() { " or --region" } else { "" }
                );
                Some((NOT_FOUND, text))
            }
            "UnrecognizedClientException" | "InvalidSignatureException" | "ExpiredTokenException" => Some((
                UNAVAILABLE,
                format!(
                    "AWS rejected the credentials ({code}): run `aws sso login`, or choose a profile with --profile"
                ),
            )),
            "AccessDeniedException" => Some((
                UNAVAILABLE,
                format!(
                    "{} of {} is denied: the role needs dynamodb:{}, see docs/security.md",
                    failed.operation,
                    self.table_with_place(),
                    failed.operation
                ),
            )),
            _ => None,
        }
    }

    fn not_connected(&self, cause: &str) -> String {
        match &self.endpoint_url {
            Some(url) if is_this_machine(url) => {
                format!("cannot connect to {url}: {cause}; start the local stack, or correct --endpoint-url")
            }
            Some(url) => format!("cannot connect to {url}: {cause}; correct --endpoint-url, or check the network"),
            None => {
                let region = self.region.as_deref().unwrap_or("an unknown Region");
                format!("cannot connect to DynamoDB in {region}: {cause}; correct --region, or check the network")
            }
        }
    }

    /// Returns `T in eu-central-1`, or `T at http://127.0.0.1:8000`.
    fn table_with_place(&self) -> String {
        let place = match (&self.endpoint_url, &self.region) {
            (Some(url), Some(region)) => format!(" at {url}, Region {region}"),
            (Some(url), None) => format!(" at {url}"),
            (None, Some(region)) => format!(" in {region}"),
            (None, None) => String::new(),
        };
        format!("{}{place}", self.table)
    }
}

/// Returns the failed request behind an error.
fn service_error(error: &CliError) -> Option<&ServiceError> {
    let mut source = error.source();
    while let Some(error) = source {
        if let Some(failed) = error.downcast_ref::<ServiceError>() {
            return Some(failed);
        }
        source = error.source();
    }
    None
}
