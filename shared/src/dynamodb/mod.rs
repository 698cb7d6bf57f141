//! Requests to DynamoDB. Each file builds a request (pure), sends it, and turns the output into an outcome (pure).
//!
//! | module | contents |
//! |---|---|
//! | [`client`] | the SDK client, its timeouts and retries, errors, consumed capacity, spans |
//! | [`read`] | items, pages, versions and history |
//! | [`put`] | version items, one or many in a request |
//! | [`write`](mod@write) | the latest item: updates, restores, metadata |
//! | [`maintain`] | backfill, audit, prune and purge, and the repair of a latest item |

pub mod client;
pub mod maintain;
pub mod put;
pub mod read;
pub mod write;

use std::time::Duration;

use aws_sdk_dynamodb::{Client, config::retry::RetryConfig};
use tokio::time::Instant;

use crate::{
    clock::Clock,
    domain::{keys::VersionDigits, recorded_at::RecordedAt},
    dynamodb::client::ClientSettings,
};

/// Versioned table. All requests are methods of it.
#[derive(Debug, Clone)]
pub struct Store {
    pub(crate) client: Client,
    /// Client without retries, for the update of the latest item: the counter is not idempotent.
    pub(crate) client_without_retries: Client,
    pub(crate) table: String,
    pub(crate) digits: VersionDigits,
    pub(crate) clock: Clock,
}

impl Store {
    /// Creates the store of a table whose version keys have this width.
    pub fn new(client: Client, table: impl Into<String>, digits: VersionDigits) -> Self {
        let once = retries(&client).with_max_attempts(1);
        let without_retries = client.config().to_builder().retry_config(once);
        Self {
            client_without_retries: Client::from_conf(without_retries.build()),
            client,
            table: table.into(),
            digits,
            clock: Clock::default(),
        }
    }

    /// Replaces the clock, by which versions get their `RecordedAt`.
    #[must_use]
    pub fn with_clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Returns the time of the writer's clock.
    pub fn now(&self) -> RecordedAt {
        RecordedAt::since_epoch(self.clock.now())
    }

    /// Returns the width of the table's version keys.
    pub fn digits(&self) -> VersionDigits {
        self.digits
    }

    /// Returns the maximum number of attempts that the client's settings allow.
    pub(crate) fn max_attempts(&self) -> u32 {
        retries(&self.client).max_attempts()
    }

    /// Returns the random wait after this number of failures, by the client's settings. Its bound doubles with each failure.
    pub(crate) fn backoff(&self, failures: u32) -> Duration {
        let settings = retries(&self.client);
        let bound = settings
            .initial_backoff()
            .saturating_mul(1 << failures.saturating_sub(1).min(16));
        bound.min(settings.max_backoff()).mul_f64(fastrand::f64())
    }

    /// Returns the end of an operation that starts now, with all its attempts, if the client's settings limit it.
    pub(crate) fn operation_end(&self) -> Option<Instant> {
        let timeouts = self.client.config().timeout_config();
        Some(Instant::now() + timeouts?.operation_timeout()?)
    }
}

fn retries(client: &Client) -> RetryConfig {
    let settings = client.config().retry_config().cloned();
    settings.unwrap_or_else(|| ClientSettings::default().retries())
}

pub(crate) fn s(text: impl Into<String>) -> aws_sdk_dynamodb::types::AttributeValue {
    aws_sdk_dynamodb::types::AttributeValue::S(text.into())
}

pub(crate) fn n(number: impl ToString) -> aws_sdk_dynamodb::types::AttributeValue {
    aws_sdk_dynamodb::types::AttributeValue::N(number.to_string())
}

#[cfg(test)]
mod test_requests;
