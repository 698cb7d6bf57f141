//! `vzero console` over HTTP: access control, forms, records of versions, escaping, and large data.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the message")]

mod compressed;
mod escaping;
mod finding;
mod guard;
mod hostile;
mod html;
mod http;
mod large;
mod listening;
mod load;
#[cfg(target_os = "linux")]
mod opener;
mod pages;
mod quarantine;
mod records;
mod served;
mod sessions;

use testkit::table::Table;

fn new_table() -> Table {
    Table::new(env!("CARGO_BIN_EXE_vzero"))
}
