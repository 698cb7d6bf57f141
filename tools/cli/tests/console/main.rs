//! `vzero console` over HTTP: who is let in, what may be written, and that all which is shown stays a text.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the message")]

mod escaping;
mod guard;
mod html;
mod http;
mod large;
mod listening;
mod pages;
mod served;

use testkit::table::Table;

fn new_table() -> Table {
    Table::new(env!("CARGO_BIN_EXE_vzero"))
}
