//! A second connection to the `SQLite` database of the embedded DynamoDB: indexes, and the deletion of old stream records.
//!
//! The embedded DynamoDB never deletes a stream record, and reads all records of a table to assign the next sequence number. It reads and
//! sorts all items of a segment for each page of a scan. So requests would take longer with each earlier write. With this connection:
//!
//! - An index of the stream records makes the next sequence number, `GetRecords` and `DescribeStream` a search.
//! - An index of each table has the order of a scan in segments.
//! - [`Sqlite::trim`] deletes records older than 24 hours, as DynamoDB does, and those that the stack's mapping has processed, except the
//!   newest [`MAX_KEPT`].
//!
//! Both connections are used on one thread only, and neither keeps a transaction open between two calls, so they never wait for each other.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
    time::Duration,
};

use dynoxide::actions::get_shard_iterator::decode_shard_iterator;
use rusqlite::{Connection, params};

use crate::lock;

/// Number of the newest records of a stream that are kept for 24 hours, although the mapping has processed them.
pub(super) const MAX_KEPT: u32 = 20_000;
/// Time after which a record is deleted: 24 hours.
/// See <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Streams.html>.
const RETENTION: Duration = Duration::from_secs(24 * 60 * 60);
/// Maximum number of records that one request deletes, so that other requests wait for a few milliseconds only.
const CHUNK: u32 = 1000;

/// The index begins with the columns that the embedded DynamoDB compares in all three requests. A name with a space cannot be the name of a
/// DynamoDB table, which `SQLite` would not distinguish.
const SCHEMA: &str = r#"
CREATE INDEX IF NOT EXISTS "stream records by number"
    ON _stream_records (table_name, CAST(sequence_number AS INTEGER), shard_id)"#;
/// Deletes the oldest ?5 records, except the newest one, after which the embedded DynamoDB continues to count: those that were created
/// before ?2, and those up to the position ?3 beyond the newest ?4.
const TRIM: &str = "
DELETE FROM _stream_records WHERE id IN (
    SELECT id FROM (
        SELECT id, created_at, CAST(sequence_number AS INTEGER) AS number FROM _stream_records WHERE table_name = ?1
        AND CAST(sequence_number AS INTEGER)
            < (SELECT MAX(CAST(sequence_number AS INTEGER)) FROM _stream_records WHERE table_name = ?1)
        ORDER BY CAST(sequence_number AS INTEGER) LIMIT ?5
    ) WHERE created_at < ?2 OR number <= MIN(?3, (
        SELECT CAST(sequence_number AS INTEGER) FROM _stream_records WHERE table_name = ?1
        ORDER BY CAST(sequence_number AS INTEGER) DESC LIMIT 1 OFFSET ?4
    ))
)";
const FIRST: &str = "SELECT MIN(CAST(sequence_number AS INTEGER)) FROM _stream_records WHERE table_name = ?1";

/// Sequence number of the first record of each stream that is not deleted, by the name of its table.
#[derive(Debug, Default)]
pub struct Trimmed(Mutex<BTreeMap<String, i64>>);

impl Trimmed {
    /// Returns `true` if the record after the position of this shard iterator is deleted. An iterator of `TRIM_HORIZON` has no position, and
    /// begins with the oldest record.
    pub(super) fn precedes(&self, iterator: &str) -> bool {
        let Some((table, _, position)) = decode_shard_iterator(iterator) else {
            return false;
        };
        position > 0 && lock(&self.0).get(&table).is_some_and(|first| position + 1 < *first)
    }

    pub(super) fn set(&self, table: &str, first: i64) {
        lock(&self.0).insert(table.to_owned(), first);
    }
}

/// The second connection to one database.
#[derive(Debug)]
pub(super) struct Sqlite {
    connection: Connection,
    trimmed: Arc<Trimmed>,
}

impl Sqlite {
    /// Opens the database of this path or URI, which the embedded DynamoDB has created, and creates the index.
    pub(super) fn open(path: &str) -> rusqlite::Result<Self> {
        let connection = Connection::open(path)?;
        connection.execute_batch(SCHEMA)?;
        let trimmed = Arc::default();
        let sqlite = Self { connection, trimmed };
        sqlite
            .streams()?
            .iter()
            .try_for_each(|table| sqlite.read_first(table))?;
        Ok(sqlite)
    }

    pub(super) fn trimmed(&self) -> Arc<Trimmed> {
        self.trimmed.clone()
    }

    fn read_first(&self, table: &str) -> rusqlite::Result<()> {
        let first: Option<i64> = self.connection.query_row(FIRST, [table], |row| row.get(0))?;
        self.trimmed.set(table, first.unwrap_or(0));
        Ok(())
    }

    /// Creates the index of each table that has none, for scans in segments.
    pub(super) fn index_tables(&self) -> rusqlite::Result<()> {
        for table in self.names("SELECT table_name FROM _tables")? {
            // The name of a table contains no quotation mark.
            let index =
                format!(r#"CREATE INDEX IF NOT EXISTS "segments of {table}" ON "{table}" (hash_prefix, pk, sk)"#);
            self.connection.execute_batch(&index)?;
        }
        Ok(())
    }

    /// Returns the tables with a stream.
    pub(super) fn streams(&self) -> rusqlite::Result<BTreeSet<String>> {
        self.names("SELECT table_name FROM _tables WHERE stream_enabled = 1")
    }

    fn names(&self, query: &str) -> rusqlite::Result<BTreeSet<String>> {
        let mut names = self.connection.prepare_cached(query)?;
        names.query_map((), |row| row.get(0))?.collect()
    }

    /// Deletes up to 1,000 of the oldest records of a table's stream: those older than 24 hours, and those up to the position `processed` that
    /// are not among the newest [`MAX_KEPT`]. Returns `true` if there can be more.
    pub(super) fn trim(&self, table: &str, processed: Option<i64>, now: Duration) -> rusqlite::Result<bool> {
        let oldest = i64::try_from(now.saturating_sub(RETENTION).as_secs()).unwrap_or(0);
        let mut delete = self.connection.prepare_cached(TRIM)?;
        let deleted = delete.execute(params![table, oldest, processed.unwrap_or(0), MAX_KEPT, CHUNK])?;
        if deleted > 0 {
            self.read_first(table)?;
        }
        Ok(deleted == CHUNK as usize)
    }
}

#[cfg(test)]
pub(super) mod tests;
