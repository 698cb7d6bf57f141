//! The stream that a mapping reads.

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

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SourceError {
    /// The iterator has expired. A new one can be requested.
    ExpiredIterator,
    /// The records after the position are deleted.
    Trimmed,
    /// Any other error. The read can be retried.
    Unavailable(String),
}
