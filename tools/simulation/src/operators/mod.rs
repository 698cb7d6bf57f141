//! Operators: the commands of `vzero`, run with the code of its library, beside the traffic of a schedule.
//!
//! A command is a process of its own: a fault can kill it, and what it has printed by then stays known. It sends its requests to
//! DynamoDB and its stream through the connector, with the [author](crate::caller::Author) of an operator, and those to S3 and SQS to
//! [`services`]. Its time is virtual, also the wait of a purge.
//!
//! ```text
//! command ─▶ library `operations` ─▶ SDK clients ─┬─ DynamoDB, streams ─▶ connector ─▶ embedded database
//!                                                 └─ S3, SQS ─▶ documents and queues in memory
//! ```

mod adopt;
mod audit;
pub(crate) mod backfill;
pub(crate) mod copy;
pub(crate) mod desk;
mod pin;
mod prune;
mod purge;
pub(crate) mod queues;
mod redrive;
pub(crate) mod repair;
mod restore;
pub(crate) mod result;
pub(crate) mod services;
#[cfg(test)]
mod tests;

use std::{path::PathBuf, time::Duration};

use aws_config::{Region, SdkConfig};
use aws_sdk_dynamodb::config::{
    BehaviorVersion, Credentials, SharedCredentialsProvider, SharedHttpClient, retry::RetryConfig,
};
use operations::rate_limit::{Limits, RateLimiter};
use operations::{connection::Connection, error::OperationError};
use shared::{clock::Clock, domain::keys::VersionDigits, dynamodb::client::ClientSettings};

use self::{
    result::{OperatorResult, Printed},
    services::{ExternalServices, ServiceConnector},
};
use crate::{
    caller::{Author, Caller},
    connector::Connector,
    functions::process,
    schedule::TABLE,
    setup::{dynamodb_client, partition},
};

/// Limit of the duration of a command, which all commands stay below: they wait for minutes.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(24 * 3600);

/// The operators of a table.
pub(crate) struct Operators {
    connection: Connection,
    services: ExternalServices,
    /// Folder of the states from which an interrupted command resumes. `None` if each command starts again.
    checkpoints: Option<PathBuf>,
}

impl Operators {
    pub(crate) fn new(connector: &Connector, clock: Clock, digits: VersionDigits, services: ExternalServices) -> Self {
        let http = ServiceConnector::new(connector.clone(), services.clone());
        Self::with_http(SharedHttpClient::new(http), clock, digits, services)
    }

    /// Creates operators whose clients send all requests to this HTTP client.
    fn with_http(http: SharedHttpClient, clock: Clock, digits: VersionDigits, services: ExternalServices) -> Self {
        let client = dynamodb_client(&http);
        let retries: RetryConfig = ClientSettings::default().retries();
        let sdk = SdkConfig::builder()
            .behavior_version(BehaviorVersion::v2026_01_12())
            // The SDK shares the retry quota among the clients of a service in a Region, and runs must be independent.
            .region(Region::new(partition()))
            .credentials_provider(SharedCredentialsProvider::new(Credentials::for_tests()))
            .timeout_config(ClientSettings::default().timeouts())
            .retry_config(retries)
            .http_client(http)
            .build();
        let connection = Connection::new(&client, sdk, "", TABLE, digits).with_clock(clock);
        Self {
            connection: Connection {
                endpoint_url: None,
                ..connection
            },
            services,
            checkpoints: None,
        }
    }

    #[cfg(test)]
    /// Stores the progress of the commands on the whole table in this folder, as `--state` does.
    #[must_use]
    pub(crate) fn with_checkpoints(mut self, folder: PathBuf) -> Self {
        self.checkpoints = Some(folder);
        self
    }

    /// Uses the history table of a run.
    #[must_use]
    pub(crate) fn with_history(mut self, history: Option<String>) -> Self {
        self.connection = self.connection.with_history(history);
        self
    }

    fn connection(&self) -> &Connection {
        &self.connection
    }

    fn checkpoint(&self, command: &str) -> Option<PathBuf> {
        Some(self.checkpoints.as_ref()?.join(format!("{command}.json")))
    }

    fn pace(&self) -> RateLimiter {
        RateLimiter::new(self.connection().pace_meter.clone(), Limits::default())
    }

    /// Runs a command in a process of its own, and returns what it printed.
    async fn run(&self, command: impl AsyncFnOnce(&Printed) -> Result<(), OperationError>) -> OperatorResult {
        self.run_as(Author::Operator, command).await
    }

    /// Runs a command whose writes have this author.
    async fn run_as(
        &self,
        author: Author,
        command: impl AsyncFnOnce(&Printed) -> Result<(), OperationError>,
    ) -> OperatorResult {
        let (printed, caller) = (Printed::default(), Caller::new(author));
        let ended = process(&caller, COMMAND_TIMEOUT, command(&printed)).await;
        printed.into_result(ended.returned())
    }
}
