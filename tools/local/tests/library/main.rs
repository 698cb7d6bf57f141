//! Tests of the library on a real table: every write mode, every read, every pattern.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the message")]

mod ahead;
mod attached;
mod audit;
mod browsing;
mod conformance;
mod consistency;
mod contention;
mod costs;
mod deletions;
mod edge;
mod gaps;
mod history_writer;
mod idempotency;
mod indexes;
mod keys;
mod limits;
mod modes;
mod order_by_time;
mod purge;
mod requests;
mod uncounted;
mod vectors;
