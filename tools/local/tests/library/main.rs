//! The library on a real table: every way to write, every read, every pattern.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the message")]

mod browsing;
mod conformance;
mod costs;
mod idempotency;
mod keys;
mod limits;
mod modes;
mod recorders;
mod requests;
mod seeds;
