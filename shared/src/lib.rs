//! Version control for the items of a DynamoDB table.
//!
//! An entity is one partition key. Its latest item carries an atomic counter, and every state it ever had is an item
//! of its own:
//!
//! ```text
//! PK            SK        Latest  Time                 State      RequestId
//! Equipment#1   v0        3       2020-11-01T20:04:00  WARNING1   r-3        <- the latest item
//! Equipment#1   v1                2020-11-01T19:58:00  OK         r-1        <- history, written once
//! Equipment#1   v2                2020-11-01T20:00:00  OK         r-2
//! Equipment#1   v3                2020-11-01T20:04:00  WARNING1   r-3
//! Equipment#1   Metadata  Name, FactoryID, LineID: what is true of the entity as such
//! ```
//!
//! [`domain`] says what these things are, [`dynamodb`] sends every request, [`config`] reads the environment.

pub mod clock;
pub mod config;
pub mod domain;
pub mod dynamodb;
pub mod error_chain;
pub mod logging;
pub mod metrics;
#[cfg(feature = "otel")]
pub mod otel;
pub mod patterns;
pub mod spans;

pub use patterns::{optimistic_lock, ratchet, time_series, two_tables};

/// The examples of the page for users of the library are compiled with the documentation's other ones.
#[cfg(doctest)]
#[doc = include_str!("../../docs/library.md")]
struct LibraryPage;
