//! Explanation of failed requests: the table or endpoint, the cause and the next step.

use std::error::Error;

use aws_config::SdkConfig;
use operations::error::OperationError;
use shared::dynamodb::client::error::{ServiceError, Unsent};

use crate::{
    connection::is_this_machine,
    error::{CliError, NOT_FOUND, UNAVAILABLE, USAGE},
    globals::Globals,
    next,
};

const NO_CREDENTIALS: &str = "no AWS credentials found: run `aws sso login` or `aws configure`, or choose a profile with --profile; for \
                              the local stack, use --endpoint-url http://127.0.0.1:8000";

/// The table of a command and its endpoint.
pub(crate) struct Place {
    pub(crate) table: String,
    pub(crate) history: Option<String>,
    region: Option<String>,
    endpoint_url: Option<String>,
}

impl Place {
    pub(crate) fn new(globals: &Globals, sdk: &SdkConfig) -> Self {
        let endpoint_url = globals.endpoint_url.as_deref().or(sdk.endpoint_url());
        Self {
            table: globals.table.clone(),
            history: None,
            region: sdk.region().map(ToString::to_string),
            endpoint_url: endpoint_url.map(str::to_owned),
        }
    }

    /// Explains an error, if its cause is known. Other errors are unchanged.
    pub(crate) fn explain(&self, error: CliError) -> CliError {
        let failed = error.causes().find_map(|cause| cause.downcast_ref::<ServiceError>());
        let explained = match (&error, failed) {
            (CliError::Operation(OperationError::NoEntity(id)), _) => {
                let text = format!(
                    "there is no {id} in {}: check the key and --table, `vzero console` lists the keys",
                    self.table_with_place()
                );
                Some((NOT_FOUND, text))
            }
            (_, Some(failed)) => self.of_request(failed),
            (CliError::Operation(failed), None) => next::of_item(failed).map(|text| (error.exit_code(), text)),
            _ => None,
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
        let (operation, table) = (&failed.operation, self.table_with_place());
        let cause = failed.source().map(ToString::to_string).unwrap_or_default();
        Some(match (failed.unsent, failed.code.as_deref()) {
            (Some(Unsent::NotConnected), _) => (UNAVAILABLE, self.not_connected(&cause)),
            (Some(Unsent::NoCredentials), _) => (UNAVAILABLE, NO_CREDENTIALS.to_owned()),
            (Some(Unsent::NoRegion), _) => (USAGE, "no AWS Region: use --region, or run `aws configure`".to_owned()),
            (Some(Unsent::InvalidEndpoint), _) => (
                USAGE,
                format!("the endpoint is not a URL ({cause}): correct AWS_ENDPOINT_URL, or use --endpoint-url"),
            ),
            // Other services use the same code for other resources.
            (_, Some("ResourceNotFoundException")) if !operation.contains("Stream") => {
                let history = self.history.as_ref();
                let history = history.map_or_else(String::new, |name| format!(", or no history table {name}"));
                let or_region = if self.region.is_some() { " or --region" } else { "" };
                let text = format!(
                    "there is no table {table}{history}: correct --table{or_region}, or run `vzero admin table create`"
                );
                (NOT_FOUND, text)
            }
            (
                _,
                Some(code @ ("UnrecognizedClientException" | "InvalidSignatureException" | "ExpiredTokenException")),
            ) => (
                UNAVAILABLE,
                format!(
                    "AWS rejected the credentials ({code}): run `aws sso login`, or choose a profile with --profile"
                ),
            ),
            (_, Some("AccessDeniedException")) => (
                UNAVAILABLE,
                format!(
                    "{operation} of {table} is denied: the role needs dynamodb:{operation}, see docs/access.md; `aws sts get-caller-identity` shows it"
                ),
            ),
            _ => return None,
        })
    }

    fn not_connected(&self, cause: &str) -> String {
        let next = match &self.endpoint_url {
            Some(url) if is_this_machine(url) => {
                "start the local stack with `cargo run -p local`, or correct --endpoint-url"
            }
            Some(_) => "correct --endpoint-url, or check the network",
            None => "correct --region, or check the network",
        };
        let place = self.endpoint_url.clone().unwrap_or_else(|| {
            let region = self.region.as_deref().unwrap_or("an unknown Region");
            format!("DynamoDB in {region}")
        });
        format!("cannot connect to {place}: {cause}; {next}")
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
