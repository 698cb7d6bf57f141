//! The embedded DynamoDB.
//!
//! ```text
//! clients, web pages ──> public port ──> server, on a random loopback address <── function processes, mapping
//! ```

use std::{
    error::Error,
    fmt,
    net::TcpListener,
    path::Path,
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

use dynoxide::{Database, ImportOptions, types};
use history_console::hosts::reachable;
use shared::{
    clock,
    domain::{Item, names, sequence::SequenceNumber},
};
use tokio::sync::oneshot;
use uuid::Uuid;

use super::{public_port, sqlite::Sqlite};
use crate::{
    error::{LocalError, failed},
    files,
    listener::{bind_random_address, in_runtime, serve},
    mapping::position::InFile,
};

/// Minimum interval between two deletions of expired items: the embedded DynamoDB has no timer of its own.
const SWEEP_INTERVAL: Duration = Duration::from_secs(60);
/// Minimum interval, as a multiple of the time of the last deletion. It reads all items, so that without this limit its share of the CPU
/// would grow with the table.
const SWEEP_PAUSE: u32 = 100;
/// Interval between two deletions of stream records, and of two searches for tables without an index.
const TRIM_INTERVAL: Duration = Duration::from_secs(1);

/// The embedded DynamoDB stores sequence numbers without this offset.
const SEQUENCE_NUMBER_OFFSET: u128 = 10_u128.pow(20);

/// A table, and the positions of the mapping of its stream.
type Processed = OnceLock<(String, InFile)>;

/// An embedded DynamoDB that serves on a port of this machine until it is dropped.
pub struct Embedded {
    endpoint: String,
    direct_endpoint: String,
    processed: Arc<Processed>,
    database: Database,
    _stop: oneshot::Sender<()>,
}

impl Embedded {
    /// Serves a database on this listener: the one in this file, or a new one in memory.
    ///
    /// # Errors
    ///
    /// The file is no database, or a different version of one, or a file, a socket or a thread failed.
    pub fn serve(listener: TcpListener, file: Option<&Path>) -> Result<Self, LocalError> {
        Self::start(listener, file).map_err(failed("cannot serve the database"))
    }

    fn start(listener: TcpListener, file: Option<&Path>) -> Result<Self, Box<dyn Error + Send + Sync>> {
        let path = match file {
            Some(file) => {
                // SQLite creates its other files with the permissions of this one.
                files::append(file)?;
                file.to_string_lossy().into_owned()
            }
            // In memory, and shared by the connections of this process that use the same name.
            None => format!("file:{}?mode=memory&cache=shared", Uuid::new_v4()),
        };
        let database = Database::new(&path)?;
        let sqlite = Sqlite::open(&path)?;
        let processed = Arc::<Processed>::default();
        let server = bind_random_address()?;
        let (address, server_address) = (listener.local_addr()?, server.local_addr()?);
        let router = public_port::router(address, server_address, sqlite.trimmed());
        // Requests run on the calling thread, behind one lock: a separate runtime keeps them from blocking other tasks.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let server = {
            let _entered = runtime.enter();
            serve(listener, router)?;
            in_runtime(server)?
        };
        let (stop, stopped) = oneshot::channel::<()>();
        let maintain = maintain(sqlite, processed.clone());
        let served = database.clone();
        std::thread::Builder::new().name("dynamodb".to_owned()).spawn(move || {
            runtime.block_on(async move {
                tokio::spawn(sweep(served.clone()));
                tokio::spawn(maintain);
                tokio::select! {
                    _ = dynoxide::server::serve_with_shutdown(server, served, std::future::pending()) => {}
                    _ = stopped => {}
                }
            });
        })?;
        Ok(Self {
            endpoint: format!("http://{}", reachable(address)),
            direct_endpoint: format!("http://{server_address}"),
            processed,
            database,
            _stop: stop,
        })
    }

    /// Deletes old records of this table's stream up to the position of the mapping, which reads its only shard. Only the first call has
    /// an effect: a second mapping would need the minimum of both positions.
    pub fn trim_processed(&self, table: String, positions: InFile) {
        let _ = self.processed.set((table, positions));
    }

    /// Puts copies of these items under each of these partition keys, in one transaction, without stream records: much faster than requests.
    ///
    /// # Errors
    ///
    /// The table does not exist, or an item does not fit its keys.
    pub fn put_copies(
        &self,
        table: &str,
        items: &[Item],
        keys: impl Iterator<Item = String>,
    ) -> Result<(), LocalError> {
        let json = serde_json::to_string(items).and_then(|json| serde_json::from_str::<Vec<types::Item>>(&json));
        let items = json.map_err(failed("cannot copy the items"))?;
        let copies = keys.flat_map(|key| {
            let key = types::AttributeValue::S(key);
            items.iter().map(move |item| {
                let mut copy = item.clone();
                copy.insert(names::PK.to_owned(), key.clone());
                copy
            })
        });
        let imported = self
            .database
            .import_items(table, copies.collect(), ImportOptions::default());
        imported.map(drop).map_err(failed("cannot put the copies"))
    }

    /// Returns the URL of the public port, such as `http://127.0.0.1:8000`.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Returns the URL of the server behind the public port. It is for the stack itself, and must not be shown: web pages could use
    /// it.
    pub fn direct_endpoint(&self) -> &str {
        &self.direct_endpoint
    }
}

impl fmt::Debug for Embedded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Embedded")
            .field("endpoint", &self.endpoint)
            .finish_non_exhaustive()
    }
}

async fn sweep(database: Database) {
    let mut pause = SWEEP_INTERVAL;
    loop {
        tokio::time::sleep(pause).await;
        let started = Instant::now();
        // After an error, the next sweep deletes the items.
        let _ = database.sweep_ttl();
        pause = SWEEP_INTERVAL.max(started.elapsed() * SWEEP_PAUSE);
    }
}

async fn maintain(sqlite: Sqlite, processed: Arc<Processed>) {
    loop {
        // After an error, the next run creates the indexes and deletes the records.
        let _ = sqlite.index_tables();
        tokio::time::sleep(TRIM_INTERVAL).await;
        for table in sqlite.streams().unwrap_or_default() {
            let processed = processed.get().filter(|(processed, _)| *processed == table);
            let last = processed.and_then(|(_, positions)| positions.saved().into_values().max());
            let last = last.as_ref().and_then(stored);
            while sqlite.trim(&table, last, clock::since_epoch()).unwrap_or(false) {
                // Requests that wait are first.
                tokio::task::yield_now().await;
            }
        }
    }
}

/// Returns a sequence number in the form in which the database stores it.
fn stored(number: &SequenceNumber) -> Option<i64> {
    let number: u128 = number.as_str().parse().ok()?;
    number.checked_sub(SEQUENCE_NUMBER_OFFSET)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use dynoxide::actions::get_shard_iterator::encode_shard_iterator;
    use serde_json::{from_str, json};

    use super::*;
    use crate::dynamodb::sqlite::tests::{TABLE, create};

    #[test]
    fn a_position_of_the_mapping_is_the_number_of_the_stored_record() {
        let database = Database::memory().unwrap();
        create(&database);
        for pk in ["first", "second"] {
            let put = json!({"TableName": TABLE, "Item": {"PK": {"S": pk}}});
            database.put_item(from_str(&put.to_string()).unwrap()).unwrap();
        }
        let read = |position| {
            let iterator = encode_shard_iterator(TABLE, &dynoxide::streams::shard_id(TABLE), position);
            let request = json!({ "ShardIterator": iterator }).to_string();
            let read = database.get_records(from_str(&request).unwrap()).unwrap();
            let numbers = read.records.into_iter().map(|record| record.dynamodb.sequence_number);
            numbers.collect::<Vec<_>>()
        };
        let numbers = read(0);
        let first = SequenceNumber::new(numbers[0].clone()).unwrap();
        assert_eq!(read(stored(&first).unwrap()), numbers[1..]);
    }

    /// Otherwise a page could try all ports of 127.0.0.1.
    #[cfg(target_os = "linux")]
    #[test]
    fn the_server_behind_the_public_port_is_at_a_random_address() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let embedded = Embedded::serve(listener, None).unwrap();
        let is_known = |url: &str| url.starts_with("http://127.0.0.1:");
        assert!(is_known(embedded.endpoint()) && !is_known(embedded.direct_endpoint()));
    }
}
