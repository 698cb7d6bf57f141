//! Sealing on this machine: the tables, the settings and the schedule of seal-fn.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};

use aws_sdk_dynamodb::Client;
use operations::table::settings::TableSettings;
use serde_json::Value;
use shared::{domain::layout::table_name, dynamodb::Store, json};

use crate::{
    dynamodb::table,
    error::{LocalError, failed},
    lambda::Lambda,
    template::{Function, Table},
};

/// Name of the function.
pub const BINARY: &str = "seal-fn";
const STATE_TABLE: &str = "SealState";
const KEYS_TABLE: &str = "SealKeys";
/// Name of the log.
const ORIGIN: &str = "vzero.local/log";
const INTERVAL: Duration = Duration::from_secs(5);
const AFTER_AN_ERROR: Duration = Duration::from_secs(1);

/// Checks that a folder can have the log of a database.
///
/// # Errors
///
/// The database is new, and the folder has a log.
pub fn check(folder: &Path, is_in_memory: bool) -> Result<(), LocalError> {
    match is_in_memory && folder.join("checkpoint").exists() {
        true => Err(LocalError::new(format!(
            "{} has a log, and its database was kept in memory only: use an empty folder, and --data-dir to keep both",
            folder.display()
        ))),
        false => Ok(()),
    }
}

/// Creates the tables of seal-fn, and returns the function that seals the versions of a table.
///
/// # Errors
///
/// A request fails.
pub async fn function(client: &Client, store: &Store, folder: &Path, key: PathBuf) -> Result<Function, LocalError> {
    for name in [STATE_TABLE, KEYS_TABLE] {
        let settings = TableSettings {
            ttl: None,
            ..TableSettings::of_history()
        };
        let name = name.to_owned();
        table::ensure(client, &Table { name, settings }).await?;
    }
    let folder = std::path::absolute(folder).map_err(failed("cannot use the folder of the log"))?;
    let table = table_name(store.latest_table());
    let tables = match store.attached_table() {
        Some(_) => format!("{table}={}", store.history_table()),
        None => table.to_owned(),
    };
    let environment = [
        ("SEAL_TABLES", tables),
        ("STATE_TABLE", STATE_TABLE.to_owned()),
        ("KEYS_TABLE", KEYS_TABLE.to_owned()),
        ("LOG_ORIGIN", ORIGIN.to_owned()),
        ("LOG_FOLDER", folder.display().to_string()),
        ("SIGNING_KEY_FILE", key.display().to_string()),
    ];
    Ok(Function {
        logical_id: "SealFunction".to_owned(),
        binary: BINARY.to_owned(),
        timeout: Duration::from_secs(120),
        memory: 512,
        environment: BTreeMap::from(environment.map(|(name, value)| (name.to_owned(), value))),
    })
}

/// Seals what is in history. Returns the reason if it is not.
pub async fn run(lambda: &Lambda) -> Result<(), String> {
    let Some(output) = lambda.invoke(BINARY, "{}").await else {
        return Ok(());
    };
    if !output.is_error {
        return Ok(());
    }
    let response = json::parse(&String::from_utf8_lossy(&output.payload)).unwrap_or_default();
    let message = response.get("errorMessage").and_then(Value::as_str);
    Err(message.unwrap_or("seal-fn failed").to_owned())
}

/// Seals again and again, and prints each new error.
pub async fn schedule(lambda: Lambda) {
    let mut reported = None;
    loop {
        let error = run(&lambda).await.err();
        if let Some(error) = error.as_ref().filter(|error| reported.as_ref() != Some(*error)) {
            let _ = terminal::write_line(&mut std::io::stderr(), &format!("error: not sealed: {error}"));
        }
        reported = error;
        tokio::time::sleep(if reported.is_some() { AFTER_AN_ERROR } else { INTERVAL }).await;
    }
}
