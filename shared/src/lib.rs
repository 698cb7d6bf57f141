//! Version control for the items of a DynamoDB table.
//!
//! An entity is one partition key. Its latest item has an atomic counter, and every version is a separate item:
//!
//! ```text
//! PK            SK        Latest  Time                 State      RequestId
//! Equipment#1   v0        3       2020-11-01T20:04:00  WARNING1   r-3        <- latest item
//! Equipment#1   v1                2020-11-01T19:58:00  OK         r-1        <- history, never changed
//! Equipment#1   v2                2020-11-01T20:00:00  OK         r-2
//! Equipment#1   v3                2020-11-01T20:04:00  WARNING1   r-3
//! Equipment#1   Metadata  Name, FactoryID, LineID: facts about the entity itself
//! ```
//!
//! [`domain`] has the pure values and rules, [`dynamodb`] the requests, and [`config`] the settings.

#![warn(clippy::missing_errors_doc)]

pub mod clock;
pub mod config;
pub mod domain;
pub mod dynamodb;
pub mod error_chain;
pub mod event;
pub mod json;
pub mod logging;
pub mod metrics;
pub mod panics;
pub mod printable;
