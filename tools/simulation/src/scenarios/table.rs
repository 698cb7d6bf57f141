//! The versioned table, in which the writes of one function fail during an outage, and the stream of its latest items.
//!
//! The stream is a list in memory, because that of the embedded database becomes slow with its length. It contains the image
//! of a latest item after each update, which no other request can change in between.

use std::{
    ops::Range,
    sync::{Arc, Mutex},
};

use dynoxide::Database;
use local::mapping::{
    Clock as _,
    position::Position,
    record::Record,
    source::{Page, Shard, Source, SourceError},
};
use serde_json::{Value, json};
use shared::domain::keys::LATEST_KEY;
use tokio::{sync::watch, time::Instant};

use super::{endpoint::Handler, stream_record};
use crate::{
    caller::lock,
    clock::Clock,
    database::{BATCH_EXECUTE_STATEMENT, Response, execute},
    error::SimulationError,
    schedule::TABLE,
};

/// Maximum number of records of a page.
const PAGE: usize = 1000;
const SHARD: &str = "shardId-1";

pub(super) struct Table {
    database: Database,
    clock: Clock,
    records: Mutex<Vec<Record>>,
    written: watch::Sender<usize>,
}

impl Table {
    pub(super) fn new(clock: Clock) -> Result<Arc<Self>, SimulationError> {
        let database = Database::memory_with_clock(Arc::new(clock)).map_err(SimulationError::OpenDatabase)?;
        let table = Self {
            database,
            clock,
            records: Mutex::default(),
            written: watch::Sender::default(),
        };
        table.send(
            "CreateTable",
            json!({
                "TableName": TABLE, "BillingMode": "PAY_PER_REQUEST",
                "AttributeDefinitions": [{"AttributeName": "PK", "AttributeType": "S"}, {"AttributeName": "SK", "AttributeType": "S"}],
                "KeySchema": [{"AttributeName": "PK", "KeyType": "HASH"}, {"AttributeName": "SK", "KeyType": "RANGE"}],
            }),
        )?;
        Ok(Arc::new(table))
    }

    /// Sends a request that never fails because of an outage.
    pub(super) fn send(&self, operation: &'static str, body: Value) -> Result<Value, SimulationError> {
        let output = execute(&self.database, operation, body.to_string().as_bytes());
        let output = output.map_err(|source| SimulationError::Request { operation, source })?;
        Ok(serde_json::from_str(&output)?)
    }

    /// Returns the records of the stream.
    pub(super) fn records(&self) -> Vec<Record> {
        lock(&self.records).clone()
    }

    fn execute(&self, operation: &str, body: Value) -> Response {
        let key = body["Key"].clone();
        match execute(&self.database, operation, body.to_string().as_bytes()) {
            Ok(body) => {
                if operation == "UpdateItem" && key["SK"]["S"] == LATEST_KEY {
                    self.append(&key);
                }
                Response { status: 200, body }
            }
            Err(error) => Response {
                status: error.status_code(),
                body: error.to_json(),
            },
        }
    }

    /// Appends the image of an item to the stream.
    fn append(&self, key: &Value) {
        let read = self.send(
            "GetItem",
            json!({"TableName": TABLE, "Key": key, "ConsistentRead": true}),
        );
        let mut records = lock(&self.records);
        let number = records.len() as u64 + 1;
        let record = read
            .ok()
            .and_then(|read| stream_record(number, self.clock.now(), &read["Item"]));
        records.extend(record);
        self.written.send_replace(records.len());
    }
}

/// The table as one function sees it.
pub(super) struct Access {
    pub(super) table: Arc<Table>,
    /// Time in which the function's writes fail, if there is one.
    pub(super) outage: Option<Range<Instant>>,
}

impl Handler for Access {
    fn respond(&self, operation: &str, body: Value) -> Response {
        const WRITES: [&str; 4] = ["PutItem", "UpdateItem", "TransactWriteItems", BATCH_EXECUTE_STATEMENT];
        let is_out = |outage: &Range<Instant>| outage.contains(&Instant::now());
        if WRITES.contains(&operation) && self.outage.as_ref().is_some_and(is_out) {
            return Response::error(500, "InternalServerError");
        }
        self.table.execute(operation, body)
    }
}

/// The stream of the table: one open shard. A read waits for a record, so that hours without updates cost nothing.
#[derive(Clone)]
pub(super) struct Stream(pub(super) Arc<Table>);

impl Source for Stream {
    async fn shards(&self) -> Result<Vec<Shard>, SourceError> {
        Ok(vec![Shard {
            id: SHARD.to_owned(),
            parent: None,
        }])
    }

    async fn iterator(&self, _: &str, position: &Position) -> Result<String, SourceError> {
        let records = lock(&self.0.records);
        let index = match position {
            Position::TrimHorizon => 0,
            Position::Latest => records.len(),
            Position::After(number) => records.partition_point(|record| record.sequence_number() <= number),
        };
        Ok(index.to_string())
    }

    async fn read(&self, iterator: &str) -> Result<Page, SourceError> {
        let from: usize = iterator.parse().map_err(|_| SourceError::ExpiredIterator)?;
        let mut written = self.0.written.subscribe();
        // The sender exists as long as the table.
        let _ = written.wait_for(|written| *written > from).await;
        let records: Vec<_> = lock(&self.0.records).iter().skip(from).take(PAGE).cloned().collect();
        let next = Some((from + records.len()).to_string());
        Ok(Page { records, next })
    }
}
