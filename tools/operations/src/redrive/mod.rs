//! Redrive: puts the version items of failure documents, and sends the updates of a dead-letter queue again.
//!
//! ```text
//! source ─ feed ─▶ records of this table ─▶ sink: replay (stream-fn's own code), or the search of a repair ─▶ tally
//!               └─▶ update ─▶ queue of the updates
//! ```
//!
//! The records of a document without a payload are read from the table's stream. A message is deleted only if all of its
//! records are in history, or if its update was sent; so is a record in quarantine. No version item is overwritten.

mod feed;
mod origin;
mod places;
mod queue;
mod replay;
mod stream;
mod tally;

use std::time::Duration;

use aws_config::timeout::TimeoutConfig;

pub(crate) use feed::{Feed, Sink};
pub use tally::{Count, Dropped, Tally};

use crate::{connection::Connection, error::OperationError, failures::source::Source, progress::Progress};

/// Default visibility timeout of a message, in seconds.
pub const VISIBILITY_TIMEOUT: u16 = 900;

/// Access to the services that hold failure documents.
#[derive(Debug, Clone)]
pub struct Services {
    pub s3_endpoint_url: Option<String>,
    pub sqs_endpoint_url: Option<String>,
    /// Visibility timeout of a message while its documents are processed, in seconds.
    pub visibility_timeout: u16,
}

impl Default for Services {
    fn default() -> Self {
        Self {
            s3_endpoint_url: None,
            sqs_endpoint_url: None,
            visibility_timeout: VISIBILITY_TIMEOUT,
        }
    }
}

/// Options of a redrive.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// `true` if nothing is put, sent or deleted.
    pub is_dry: bool,
    /// Records because of which a message or a quarantine item is not kept.
    pub drop: Dropped,
    /// Name or ARN of the table that the records must come from, if it is another one.
    pub from_table: Option<String>,
    /// URL of the queue that updates are sent to, if not the only source queue of the dead-letter queue.
    pub to: Option<String>,
}

/// Replays the records of all sources, and sends the updates of dead-letter queues again. Reports the number of documents and updates.
/// Adds to the tally, also before an error.
///
/// # Errors
///
/// Returns [`OperationError`] if a source cannot be read.
pub async fn redrive(
    connection: &Connection,
    services: &Services,
    sources: &[Source],
    options: &Options,
    progress: &dyn Progress,
    tally: &mut Tally,
) -> Result<(), OperationError> {
    let replay = replay::Replay::new(connection, services, options);
    let feed = Feed::new(connection, services, Some(options), progress);
    feed.all(sources, &replay, tally).await
}

/// Timeouts of requests to S3 and SQS: a document can have 6 MB, and a receive request waits for messages.
fn timeouts() -> TimeoutConfig {
    TimeoutConfig::builder()
        .connect_timeout(Duration::from_secs(2))
        .read_timeout(Duration::from_secs(10))
        .operation_attempt_timeout(Duration::from_secs(20))
        .operation_timeout(Duration::from_secs(60))
        .build()
}

/// Returns a connection whose requests, to all services, get these responses.
#[cfg(test)]
fn replayed(replay: &testkit::replay::Replay, table: &str) -> crate::connection::Connection {
    use aws_config::{BehaviorVersion, Region, SdkConfig};
    use aws_sdk_sqs::config::{Credentials, SharedCredentialsProvider};
    use shared::domain::keys::VersionDigits;

    let sdk = SdkConfig::builder()
        .behavior_version(BehaviorVersion::v2026_01_12())
        .region(Region::new("eu-central-1"))
        .credentials_provider(SharedCredentialsProvider::new(Credentials::for_tests()))
        .http_client(replay.http())
        .build();
    let (client, digits) = (replay.client(), VersionDigits::default());
    crate::connection::Connection::new(&client, sdk, "http://127.0.0.1:1", table, digits)
}
