//! The command `vzero`: its arguments, output and errors, and the commands that read and write entities.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the message")]

mod commands;
mod escaping;
mod exact_keys;
mod history;
mod nested;
mod plan;
mod policies;
#[path = "../support/script.rs"]
mod script;
mod settings;
mod states;
mod table;
mod table_arn;
mod terminal;

use testkit::table::Table;

const VZERO: &str = env!("CARGO_BIN_EXE_vzero");

fn new_table() -> Table {
    Table::new(VZERO)
}

const RUNNER: script::Runner = |table| Box::new(|line| table.run(line));
