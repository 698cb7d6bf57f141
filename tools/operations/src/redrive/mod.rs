//! Redrive: puts the version items of failure documents, and sends the updates of a dead-letter queue again.
//!
//! ```text
//! source ─ feed ─▶ document ─ reader ─▶ records ─ replay (stream-fn's own code) ─▶ tally
//!               └─▶ update ─ resend ─▶ queue of the updates
//! ```
//!
//! The records of a document without a payload are read from the table's stream. A message is deleted only if all of its
//! records are in history, or if its update was sent; so is a record in quarantine. No version item is overwritten.

mod bucket;
mod feed;
mod folder;
mod queue;
mod reader;
mod replay;
mod resend;
mod services;
mod stream;
mod tally;

pub use feed::{Feed, Sink};
pub use reader::Reader;
pub use replay::Replay;
pub use resend::Resend;
pub use services::{Services, VISIBILITY_TIMEOUT};
pub use tally::{Count, Dropped, Tally};

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
