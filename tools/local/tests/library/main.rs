//! Tests of the library on a real table: every write mode, every read, every pattern.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the message")]

mod attached;
mod audit;
mod browsing;
mod change_sets;
mod conformance;
mod consistency;
mod costs;
mod deletions;
mod history_writer;
mod idempotency;
mod keys;
mod limits;
mod modes;
mod order_by_time;
mod requests;
mod snapshot;
mod time_index;
mod uncounted;
mod vectors;
