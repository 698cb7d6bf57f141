//! Start of the function, and the errors that the runtime reports.

use lambda_runtime::{Diagnostic, LambdaEvent, service_fn};
use shared::{
    clock::Deadline,
    config::Config,
    dynamodb::client,
    event::Event,
    logging::{self, chain, variant},
};

use crate::{HistoryWriter, error::Error, metrics};

/// Configures the function from the environment and serves invocations until the process ends.
pub async fn run() -> Result<(), lambda_runtime::Error> {
    logging::init();
    metrics::init();
    let config = Config::from_env();
    let config = config.inspect_err(|error| tracing::error!(error = chain(error), "not started"))?;
    let client = client::from_env(&config.client).await;
    let writer = HistoryWriter::new(client, &config);
    // The first request also sets up the connection. During initialization, Lambda gives the function a full CPU, so this is
    // faster there than in the first invocation.
    writer.start().await;
    lambda_runtime::run(service_fn(async |event: LambdaEvent<Event>| {
        let (context, deadline) = (&event.context, Deadline::at_epoch_millis(event.context.deadline));
        let event = event.payload.json().ok_or(Error::InvalidEvent)?;
        writer.handle(event, &context.request_id, deadline).await
    }))
    .await
}

impl From<Error> for Diagnostic {
    fn from(error: Error) -> Self {
        Self {
            error_type: match &error {
                Error::Unnamed(failure) => variant(failure),
                error => variant(error),
            },
            error_message: chain(&error),
        }
    }
}
