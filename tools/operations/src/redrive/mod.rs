//! Redrive: puts the version items of failure documents, and sends the updates of a dead-letter queue again.
//!
//! ```text
//! source ─ feed ─▶ records of this table ─▶ replay (stream-fn's own code), or the search of a repair ─▶ tally
//!               └─▶ update ─▶ queue of the updates
//! ```
//!
//! The records of a document without a payload are read from the table's stream. A message is deleted only if all of its
//! records are in history, or if its update was sent; so is a record in quarantine. No version item is overwritten.

pub mod erase;
mod feed;
mod origin;
mod places;
mod queue;
mod replay;
mod stream;
mod tally;
#[cfg(test)]
mod test_connection;

pub(crate) use feed::Feed;
pub use tally::{CONFLICTS, Count, Tally};

use std::cell::RefCell;

use stream_fn::response::Outcome;

use crate::{
    all_versions::completeness::OldestRecord, connection::Connection, error::OperationError, failures::source::Source,
    progress::Progress,
};

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
    /// Outcomes of records because of which a message or a record in quarantine is not kept.
    pub drop: Vec<Count>,
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
    let replay = replay::replay(&connection.store, services, options);
    let feed = Feed::new(connection, services, Some(options), progress, replay);
    feed.all(sources, tally).await
}

/// Returns the oldest record of failure documents that history lacks. Nothing is put, sent or deleted.
///
/// # Errors
///
/// Returns [`OperationError`] if a source cannot be read.
pub async fn oldest_record(
    connection: &Connection,
    services: &Services,
    sources: &[Source],
    progress: &dyn Progress,
) -> Result<OldestRecord, OperationError> {
    let options = Options {
        is_dry: true,
        ..Options::default()
    };
    let replay = replay::replay(&connection.store, services, &options);
    let (digits, oldest) = (connection.store.digits(), RefCell::new(OldestRecord::default()));
    let process = async |name: &str, records: Vec<&str>| {
        let processed = replay(name, records.clone()).await;
        for (_, record) in processed
            .iter()
            .zip(records)
            .filter(|(done, _)| is_missing(&done.outcome))
        {
            oldest.borrow_mut().add(record, digits);
        }
        processed
    };
    let (feed, mut tally) = (
        Feed::new(connection, services, Some(&options), progress, process),
        Tally::default(),
    );
    feed.all(sources, &mut tally).await?;
    drop(feed);
    let mut oldest = oldest.into_inner();
    // Records that the stream no longer has.
    oldest.without_time += tally.summary(true)["Lost"].as_u64().unwrap_or(0);
    Ok(oldest)
}

fn is_missing(outcome: &Outcome) -> bool {
    use Outcome::{AlreadyRecorded, Pruned, Purged, Skipped};
    !matches!(outcome, AlreadyRecorded | Pruned | Purged | Skipped)
}
