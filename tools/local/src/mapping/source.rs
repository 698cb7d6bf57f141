//! The stream that a mapping reads.

use thiserror::Error;

use super::{position::Position, record::Record};

/// A stream of shards, each an ordered sequence of records.
pub trait Source: Send + Sync {
    fn shards(&self) -> impl Future<Output = Result<Vec<Shard>, SourceError>> + Send;
    /// Returns an iterator over a shard that starts at a position.
    fn iterator(&self, shard: &str, position: &Position) -> impl Future<Output = Result<String, SourceError>> + Send;
    /// Reads up to 1,000 records from an iterator.
    fn read(&self, iterator: &str) -> impl Future<Output = Result<Page, SourceError>> + Send;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shard {
    pub id: String,
    pub parent: Option<String>,
}

#[derive(Debug, Clone)]
pub struct Page {
    /// Records in stream order.
    pub records: Vec<Record>,
    /// The next iterator. `None` at the end of a closed shard.
    pub next: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SourceError {
    /// The iterator has expired. A new one can be requested.
    #[error("the iterator has expired")]
    ExpiredIterator,
    #[error("the records are trimmed")]
    Trimmed,
    /// Any other error. The read can be retried.
    #[error("the stream cannot be read: {0}")]
    Unavailable(String),
}
