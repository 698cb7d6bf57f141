//! Applies upstream events to the latest items of entities: each update creates the next version.
//!
//! Data flows one way: event → [`request`] (remove the envelopes) → an update → one request of [`shared::dynamodb`] → its
//! outcome → [`response`] or [`error`].

mod batch;
pub mod error;
mod metrics;
pub mod request;
pub mod response;
mod writer;

use std::time::Duration;

use lambda_runtime::{LambdaEvent, service_fn};
use shared::{
    clock::{self, Deadline},
    config::Config,
    dynamodb::client,
    event::Event,
    logging::{self, chain},
    metrics::Tally,
};
use tokio::time::timeout;

pub use crate::writer::Writer;
use crate::{
    error::{Error, InvalidEvent},
    request::{Carrier, Request},
    response::Response,
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
        writer.handle_from(&carrier, event.payload.json(), deadline).await
    }))
    .await
}

impl Writer {
    /// Processes the first attempt of an invocation. `request_id` is the id that Lambda gave the invocation.
    pub async fn handle(&self, event: &str, request_id: &str, deadline: Deadline) -> Result<Response, Error> {
        self.handle_from(&Carrier::invocation(request_id), Some(event), deadline)
            .await
    }

    /// Processes one attempt of an invocation. `event` is `None` if it is not JSON.
    pub async fn handle_from(
        &self,
        invocation: &Carrier,
        event: Option<&str>,
        deadline: Deadline,
    ) -> Result<Response, Error> {
        let tally = Tally::default();
        let response = self.respond(event, invocation, deadline, &tally).await;
        tally.emit(&invocation.id);
        response
    }

    async fn respond(
        &self,
        event: Option<&str>,
        invocation: &Carrier,
        deadline: Deadline,
        tally: &Tally,
    ) -> Result<Response, Error> {
        let parsed = event.ok_or(InvalidEvent::NotJson).and_then(request::parse);
        let update = match parsed {
            Ok(Request::Batch(messages)) => {
                self.check_layout(deadline).await?;
                return Ok(Response::Batch(batch::write(self, messages, deadline, tally).await?));
            }
            Ok(Request::Update(envelope)) => self.open(envelope, invocation),
            Err(error) => Err(error),
        };
        let update = update
            .map_err(Error::from)
            .inspect_err(|error| writer::reject(None, error, tally))?;
        self.check_layout(deadline).await?;
        Ok(Response::Update(self.write(&update, None, deadline, tally).await?))
    }
}
