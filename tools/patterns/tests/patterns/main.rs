//! Tests of the patterns: on a real table, and with replayed responses.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the message")]

mod failures;
mod hedge;
mod optimistic_lock;
mod published;
mod requests;
mod throttled_load;
mod time_series;
mod two_tables;
