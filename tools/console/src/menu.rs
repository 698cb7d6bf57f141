//! The menu of tables. Without permission to list tables, it has only the one that the console was started for.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use aws_sdk_dynamodb::Client;
use operations::{
    connection::Connection,
    tables::{self, Kind},
};
use serde_json::{Value, json};
use shared::domain::layout::table_name;

use crate::lock::lock;

/// Time after which the list of tables is read again.
const MAX_AGE: Duration = Duration::from_secs(60);
/// Maximum time for which a page waits for the list.
const TIMEOUT: Duration = Duration::from_secs(2);

/// A table with its name.
pub(super) type Table = (String, Kind);

pub(super) struct Menu {
    client: Client,
    /// The table that the console was started for.
    pub(super) first: Table,
    /// The list, and the time of its last read.
    listed: Mutex<(Option<Instant>, Arc<[Table]>)>,
}

impl Menu {
    pub(super) fn new(connection: &Connection) -> Self {
        let history = || {
            connection
                .store
                .own_history()
                .map(|history| table_name(history).to_owned())
        };
        let attached = connection.store.attached_table().cloned();
        let kind = attached.map_or_else(|| Kind::Own { history: history() }, Kind::Attached);
        let first = (table_name(&connection.table).to_owned(), kind);
        Self {
            client: connection.client.clone(),
            listed: Mutex::new((None, Arc::from([first.clone()]))),
            first,
        }
    }

    /// Reads the list if it is too old. Other requests use the old one meanwhile.
    pub(super) async fn refresh(&self) {
        {
            let read = &mut lock(&self.listed).0;
            if read.is_some_and(|read| read.elapsed() < MAX_AGE) {
                return;
            }
            *read = Some(Instant::now());
        }
        if let Ok(Ok(mut tables)) = tokio::time::timeout(TIMEOUT, tables::list(&self.client)).await {
            tables.retain(|(name, _)| *name != self.first.0);
            tables.insert(0, self.first.clone());
            lock(&self.listed).1 = tables.into();
        }
    }

    /// Returns the tables, the one that the console was started for first.
    pub(super) fn listed(&self) -> Arc<[Table]> {
        Arc::clone(&lock(&self.listed).1)
    }

    /// Returns the name of a table in addresses.
    pub(super) fn parameter(&self, table: &str) -> Option<String> {
        (table != self.first.0).then(|| table.to_owned())
    }
}

pub(super) fn to_json((name, kind): &Table) -> Value {
    match kind {
        Kind::Own { history } => json!({"Table": name, "Kind": "own", "HistoryTable": history}),
        Kind::Attached(table) => {
            let keys = table
                .keys()
                .map(|key| (key.name.clone(), Value::from(key.kind.as_str())));
            json!({"Table": name, "Kind": "attached", "HistoryTable": table.history_table(), "Keys": keys.collect::<Value>()})
        }
    }
}
