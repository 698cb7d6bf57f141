//! The stream that a mapping reads.

use thiserror::Error;

use super::{position::Position, record::Record};

/// A stream of shards, each an ordered sequence of records.
pub trait Source: Send + Sync {
    /// The shards there are.
    fn shards(&self) -> impl Future<Output = Result<Vec<Shard>, SourceError>> + Send;

    /// An iterator over a shard from a position on.
    fn iterator(&self, shard: &str, position: &Position) -> impl Future<Output = Result<String, SourceError>> + Send;

    /// Up to 1,000 records from an iterator on.
    fn read(&self, iterator: &str) -> impl Future<Output = Result<Page, SourceError>> + Send;
}

/// A shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shard {
    /// Its id.
    pub id: String,
    /// The shard it goes on from.
    pub parent: Option<String>,
}

/// What one read returned.
#[derive(Debug, Clone)]
pub struct Page {
    /// The records, in order.
    pub records: Vec<Record>,
    /// Where to go on, `None` at the end of a closed shard.
    pub next: Option<String>,
}

/// Why a stream could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SourceError {
    /// The iterator is too old, and a new one is to be had.
    #[error("the iterator is expired")]
    ExpiredIterator,
    /// The stream no longer has records from this position on.
    #[error("the records are trimmed")]
    Trimmed,
    /// All else, worth another try.
    #[error("the stream cannot be read: {0}")]
    Unavailable(String),
}
