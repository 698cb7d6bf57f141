//! The stream that a mapping reads.

use thiserror::Error;

use super::{position::Position, record::Record};

/// A stream of shards, each an ordered sequence of records.
pub trait Source: Send + Sync {
    /// Lists the shards.
    fn shards(&self) -> impl Future<Output = Result<Vec<Shard>, SourceError>> + Send;

    /// Returns an iterator over a shard that starts at a position.
    fn iterator(&self, shard: &str, position: &Position) -> impl Future<Output = Result<String, SourceError>> + Send;

    /// Reads up to 1,000 records from an iterator.
    fn read(&self, iterator: &str) -> impl Future<Output = Result<Page, SourceError>> + Send;
}

/// A shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shard {
    /// Shard id.
    pub id: String,
    /// Id of the parent shard, if any.
    pub parent: Option<String>,
}

/// The output of one read.
#[derive(Debug, Clone)]
pub struct Page {
    /// Records in stream order.
    pub records: Vec<Record>,
    /// The next iterator. `None` at the end of a closed shard.
    pub next: Option<String>,
}

/// An error of a read from the stream.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SourceError {
    /// The iterator has expired. A new one can be requested.
    #[error("the iterator has expired")]
    ExpiredIterator,
    /// The stream no longer has the records at this position.
    #[error("the records are trimmed")]
    Trimmed,
    /// Any other error. The read can be retried.
    #[error("the stream cannot be read: {0}")]
    Unavailable(String),
}
