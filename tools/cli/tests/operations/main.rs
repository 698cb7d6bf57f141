//! What an operator does with a whole table, by the command as its user runs it, against a table.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the message")]

mod audit;
mod backfill;
#[path = "../../../local/tests/endpoint/mod.rs"]
mod endpoint;
mod prune;
mod support;
