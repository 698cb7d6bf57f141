//! What an operator does with a whole table, by the command as its user runs it, against an embedded database.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the message")]

mod audit;
mod backfill;
mod prune;
mod support;
