//! `vzero audit`, `backfill`, `prune`, `purge` and `repair` on a table.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the message")]

mod audit;
mod backfill;
mod backfill_conflicts;
mod behind;
mod copies;
mod history_table;
mod hostile;
mod killed;
mod prune;
mod purge;
#[path = "../support/script.rs"]
mod script;

use serde_json::{Value, json};
use testkit::table::Table;

fn new_table() -> Table {
    with_digits(1)
}

fn with_digits(digits: u8) -> Table {
    Table::with_digits(env!("CARGO_BIN_EXE_vzero"), digits)
}

fn latest(id: &str, number: u64) -> Value {
    json!({"PK": {"S": id}, "SK": {"S": "v0"}, "Latest": {"N": number.to_string()}, "RequestId": {"S": "r"}})
}

fn version(id: &str, number: u64) -> Value {
    json!({"PK": {"S": id}, "SK": {"S": format!("v{number}")}, "RequestId": {"S": "r"}})
}

const RUNNER: script::Runner = |table| Box::new(|line| table.run(line));
