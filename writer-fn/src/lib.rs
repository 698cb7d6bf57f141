//! An upstream event becomes the next version of its entity's latest item.
//!
//! Data runs one way: event → [`request`] (envelopes taken off) → an update → one request of
//! [`shared::dynamodb`] → its outcome → [`response`] or [`error`].

mod batch;
pub mod error;
pub mod request;
pub mod response;

use std::time::Duration;

use lambda_runtime::{LambdaEvent, service_fn};
use serde_json::value::RawValue;
use shared::{
    clock::Deadline,
    config::Config,
    domain::{
        entity::EntityId,
        update::{Ordering, Update},
    },
    dynamodb::{Store, client, table_config::WidthError, write::WriteOptions},
    logging::{self, chain},
};

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
    let config = Config::from_env()?;
    let client = client::from_env().await;
    let writer = Writer::new(client, &config);
    if let Err(error) = writer.check_width().await {
        tracing::error!(error = chain(&error), "not started");
        return Err(error.into());
    }
    lambda_runtime::run(service_fn(async |event: LambdaEvent<Box<RawValue>>| {
        let deadline = Deadline::at_epoch_millis(event.context.deadline);
        writer.handle(&event.payload, &event.context.request_id, deadline).await
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
        match request::parse(event)? {
            Request::Update(envelope) => {
                let update = envelope.open(request_id, self.ordering)?;
                Ok(Response::Update(self.write(&update).await?))
            }
            Request::Batch(messages) => Ok(Response::Batch(batch::write(self, messages, deadline).await?)),
        }
    }

    async fn write(&self, update: &Update) -> Result<Answer, Error> {
        let written = self.store.write(update, self.options).await;
        let answer = match written {
            Ok(outcome) => Answer::of(&update.entity, outcome),
            Err(error) => Err(Error::from(error)),
        };
        self.log(&update.entity, &answer);
        answer
    }

    fn log(&self, entity: &EntityId, answer: &Result<Answer, Error>) {
        let entity = entity.in_logs(self.log_keys);
        match answer {
            Ok(answer) => tracing::info!(entity, outcome = answer.outcome(), version = answer.version(), "update"),
            Err(error) => {
                tracing::warn!(entity, outcome = error.error_type(), error = error.chain(), "update");
            }
        }
    }
}
