//! An upstream event becomes the next version of its entity's latest item.
//!
//! Data runs one way: event → [`request`] (envelopes taken off) → an update → one request of
//! [`shared::dynamodb`] → its outcome → [`response`] or [`error`].

mod batch;
pub mod error;
mod metrics;
pub mod request;
pub mod response;

use std::time::Duration;

use lambda_runtime::{LambdaEvent, service_fn};
use serde_json::value::RawValue;
use shared::{
    clock::Deadline,
    config::Config,
    domain::update::{Ordering, Update},
    dynamodb::{Store, client, table_config::WidthError, write::WriteOptions},
    logging::{self, chain},
    metrics::Tally,
    spans,
};
use tokio::time::Instant;
use tracing::{Instrument as _, Span, field::Empty};

use crate::{
    error::Error,
    request::Request,
    response::{Answer, Response},
};

/// How long the start may wait for the table.
const CHECK_TIMEOUT: Duration = Duration::from_secs(1);

/// Sets up the function from the environment, and serves invocations until the process ends.
pub async fn run() -> Result<(), lambda_runtime::Error> {
    logging::init();
    metrics::init();
    let config = Config::from_env()?;
    let client = client::from_env().await;
    let writer = Writer::new(client, &config);
    if let Err(error) = writer.check_width().await {
        tracing::error!(error = chain(&error), "not started");
        return Err(error.into());
    }
    lambda_runtime::run(service_fn(async |event: LambdaEvent<Box<RawValue>>| {
        let (context, deadline) = (&event.context, Deadline::at_epoch_millis(event.context.deadline));
        let span = spans::invocation("writer-fn", &context.request_id, context.xray_trace_id.as_deref());
        let answer = writer.handle(&event.payload, &context.request_id, deadline);
        let answer = answer.instrument(span).await;
        spans::flush();
        answer
    }))
    .await
}

/// The function: where it writes, and by which rules.
#[derive(Debug, Clone)]
pub struct Writer {
    store: Store,
    ordering: Ordering,
    options: WriteOptions,
    log_keys: bool,
}

impl Writer {
    /// A writer by the settings of the environment.
    pub fn new(client: aws_sdk_dynamodb::Client, config: &Config) -> Self {
        Self {
            store: Store::new(client, config.table.clone(), config.digits),
            ordering: config.ordering,
            options: config.write,
            log_keys: config.log_keys,
        }
    }

    /// Makes sure that the table was not begun with another width of version keys, and keeps the width where it is not
    /// the default one. A table that cannot be reached is no reason not to start.
    async fn check_width(&self) -> Result<(), WidthError> {
        match tokio::time::timeout(CHECK_TIMEOUT, self.store.claim_width()).await {
            Ok(Err(WidthError::Service(error))) => {
                tracing::warn!(error = chain(&error), "the width of version keys was not checked");
                Ok(())
            }
            Ok(checked) => checked,
            Err(_) => Ok(()),
        }
    }

    /// Answers one invocation. `request_id` is Lambda's.
    pub async fn handle(&self, event: &RawValue, request_id: &str, deadline: Deadline) -> Result<Response, Error> {
        let tally = Tally::default();
        let response = self.answer(event, request_id, deadline, &tally).await;
        tally.emit(request_id);
        response
    }

    async fn answer(
        &self,
        event: &RawValue,
        request_id: &str,
        deadline: Deadline,
        tally: &Tally,
    ) -> Result<Response, Error> {
        let update = match request::parse(event) {
            Ok(Request::Batch(messages)) => {
                return Ok(Response::Batch(batch::write(self, messages, deadline, tally).await?));
            }
            Ok(Request::Update(envelope)) => envelope.open(request_id, self.ordering),
            Err(error) => Err(error),
        };
        let update = update
            .map_err(Error::from)
            .inspect_err(|error| refuse(None, error, tally))?;
        Ok(Response::Update(self.write(&update, None, tally).await?))
    }

    /// Applies one update, that came in this message of a queue or in none.
    async fn write(&self, update: &Update, message: Option<&str>, tally: &Tally) -> Result<Answer, Error> {
        let since = Instant::now();
        let span = tracing::info_span!(
            "update",
            entity = Empty,
            request = Empty,
            outcome = Empty,
            version = Empty
        );
        let written = self.store.write(update, self.options).instrument(span.clone()).await;
        let answer = match written {
            Ok(outcome) => Answer::of(&update.entity, outcome),
            Err(error) => Err(Error::from(error)),
        };
        metrics::update(tally, &answer, since.elapsed());
        self.log(update, message, &answer, &span);
        answer
    }

    fn log(&self, update: &Update, message: Option<&str>, answer: &Result<Answer, Error>, span: &Span) {
        let entity = update.entity.in_logs(self.log_keys);
        let request = update.request_id.in_logs();
        let (outcome, version) = match answer {
            Ok(answer) => (answer.outcome(), Some(answer.version())),
            Err(error) => (error.error_type(), None),
        };
        span.record("entity", &entity)
            .record("request", &request)
            .record("outcome", outcome);
        span.record("version", version);
        match answer {
            Ok(_) => tracing::info!(entity, request, message_id = message, outcome, version, "update"),
            Err(error) => {
                let error = error.chain();
                tracing::warn!(entity, request, message_id = message, outcome, error, "update");
            }
        }
    }
}

/// Counts and logs an event, or a message of a queue, that holds no update.
fn refuse(message: Option<&str>, error: &Error, tally: &Tally) {
    metrics::refused(tally, error);
    tracing::warn!(
        message_id = message,
        outcome = error.error_type(),
        error = error.chain(),
        "update"
    );
}
