//! Operators: the commands of `vzero`, run with the code of its library, beside the traffic of a schedule.
//!
//! A command is a process of its own, which a fault can kill. What it prints, the tests of `tools/cli` check. It sends its requests to
//! DynamoDB and its stream through the connector, with the [author](crate::caller::Author) of an operator, and those to S3 and SQS to
//! [`services`]. Its time is virtual, also the wait of a purge.
//!
//! ```text
//! command ─▶ library `operations` ─▶ SDK clients ─┬─ DynamoDB, streams ─▶ connector ─▶ embedded database
//!                                                 └─ S3, SQS ─▶ documents and queues in memory
//! ```

pub(crate) mod commands;
mod erase;
pub(crate) mod services;
#[cfg(test)]
mod tests;

use std::{path::PathBuf, time::Duration};

use aws_config::{Region, SdkConfig};
use aws_sdk_dynamodb::config::{BehaviorVersion, Credentials, SharedCredentialsProvider};
use operations::{
    connection::Connection,
    error::OperationError,
    rate_limit::{Limits, RateLimiter},
};
use shared::{
    config::{Ordering, WriteOptions},
    domain::keys::VersionDigits,
    dynamodb::client::ClientSettings,
};

use self::services::OperatorServices;
use crate::{
    caller::{Author, Caller},
    clock::Clock,
    connector::Connector,
    functions::process,
    http,
    queue::Queues,
    schedule::TABLE,
    setup::{dynamodb_client, partition},
};

/// Limit of the duration of a command, which all commands stay below: they wait for minutes.
pub(crate) const COMMAND_TIMEOUT: Duration = Duration::from_secs(24 * 3600);

/// End of a command. `None` if its process was killed, or panicked.
pub(crate) type CommandEnd = Option<Result<(), OperationError>>;

/// Returns `true` if a command succeeded.
pub(crate) fn is_done(end: &CommandEnd) -> bool {
    matches!(end, Some(Ok(())))
}

/// The operators of a table.
pub(crate) struct Operators {
    connection: Connection,
    services: OperatorServices,
    /// How a command applies an update.
    write: (Ordering, WriteOptions),
    /// `true` if a repair reads the stream, too.
    reads_stream: bool,
    /// Folder of the states from which an interrupted command resumes. `None` if each command starts again.
    checkpoints: Option<PathBuf>,
}

impl Operators {
    pub(crate) fn new(
        connector: &Connector,
        clock: Clock,
        digits: VersionDigits,
        history: Option<String>,
        write: (Ordering, WriteOptions),
    ) -> Self {
        let services = OperatorServices::new(connector.clone(), clock);
        let sdk = SdkConfig::builder()
            .behavior_version(BehaviorVersion::v2026_01_12())
            // The SDK shares the retry quota among the clients of a service in a Region, and runs must be independent.
            .region(Region::new(partition()))
            .credentials_provider(SharedCredentialsProvider::new(Credentials::for_tests()))
            .timeout_config(ClientSettings::default().timeouts())
            .retry_config(ClientSettings::default().retries())
            .http_client(http::client(&services))
            .build();
        let mut connection = Connection::new(&dynamodb_client(&services), sdk, "", TABLE, digits);
        connection.endpoint_url = None;
        Self {
            connection: connection.with_clock(clock.of_library()).with_history(history),
            services,
            write,
            reads_stream: false,
            checkpoints: None,
        }
    }

    /// Lets the commands know whether history has an index by time.
    pub(crate) fn with_time_index(mut self, is_indexed: bool) -> Self {
        self.connection.store = self.connection.store.with_time_index(Some(is_indexed));
        self
    }

    pub(crate) fn queues(&self) -> &Queues {
        &self.services.queues
    }

    fn checkpoint(&self, command: &str) -> Option<PathBuf> {
        Some(self.checkpoints.as_ref()?.join(format!("{command}.json")))
    }

    fn pace(&self) -> RateLimiter {
        RateLimiter::new(self.connection.pace_meter.clone(), Limits::default())
    }
}

/// Runs a command in a process of its own, whose writes have this author.
pub(crate) async fn run(author: Author, command: impl Future<Output = Result<(), OperationError>>) -> CommandEnd {
    process(&Caller::new(author), COMMAND_TIMEOUT, command).await.ok()
}
