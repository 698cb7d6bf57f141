//! Start of the function, and the errors that the runtime reports.

use std::time::Duration;

use lambda_runtime::{Diagnostic, LambdaEvent, service_fn};
use shared::{
    clock::{self, Deadline},
    config::Config,
    dynamodb::client,
    event::Event,
    logging::{self, chain},
};
use tokio::time::timeout;

use crate::{
    Writer,
    error::Error,
    event::request::{self, Carrier},
    metrics,
};

/// Maximum time that initialization waits for the check of the layout.
const CHECK_TIMEOUT: Duration = Duration::from_secs(1);

/// Configures the function from the environment and serves invocations until the process ends.
pub async fn run() -> Result<(), lambda_runtime::Error> {
    logging::init();
    metrics::init();
    let config = Config::from_env();
    let config = config.inspect_err(|error| tracing::error!(error = chain(error), "not started"))?;
    let client = client::from_env(&config.client).await;
    let writer = Writer::new(client, &config);
    // Lambda gives the function a full CPU during initialization. If it fails, the first invocation repeats the check.
    let _ = timeout(CHECK_TIMEOUT, writer.claim_layout()).await;
    lambda_runtime::run(service_fn(async |event: LambdaEvent<Event>| {
        let (context, deadline) = (&event.context, Deadline::at_epoch_millis(event.context.deadline));
        let carrier = Carrier {
            first_delivered: request::first_attempt(context.xray_trace_id.as_deref(), clock::since_epoch()),
            ..Carrier::invocation(&context.request_id)
        };
        writer.handle(&carrier, event.payload.json(), deadline).await
    }))
    .await
}

impl From<Error> for Diagnostic {
    fn from(error: Error) -> Self {
        Self {
            error_type: error.error_type().to_owned(),
            error_message: error.message(),
        }
    }
}
