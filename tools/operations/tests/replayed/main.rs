//! Requests of operations to a DynamoDB that fails, throttles, or that others write, with replayed responses.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the message")]

mod create_table;
mod latest;
mod purge;
mod purged;
