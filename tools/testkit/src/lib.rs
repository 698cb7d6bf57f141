//! Test support that several crates share. It is only a dev-dependency.
//!
//! | module | provides | feature |
//! |---|---|---|
//! | `replay` | DynamoDB clients that replay prepared responses | `replay` |
//! | `scripted` | DynamoDB clients whose response follows from the request, or never comes | `replay` |
//! | `cloud` | S3 and KMS for the SDK clients, with faults | `cloud` |
//! | `cases` | tables of cases in a text | |
//! | `requests` | an interceptor that counts requests, failed conditions, and units of transactions | |
//! | `hostile` | documents that overflow the stack of a parser, and names that parsers reserve | |
//! | `http` | HTTP messages as bytes, and servers of a test | |
//! | `serving` | the command `local` | |
//! | `tap` | a proxy that lists the IAM actions of the requests | `stack` |
//! | `policies` | the policies of a template | `stack` |
//! | `iam` | decisions of an independent evaluator of IAM policies | |
//! | `endpoint` | the engine of a test: embedded, or `VZERO_TEST_ENDPOINT` | `stack` |
//! | `updates` | updates, their options and outcomes, from one place | `stack` |
//! | `database`, `world` | test tables of the library | `stack` |
//! | `vzero`, `table`, `attached` | the command on a versioned table, and on one that other programs write | `stack` |
//! | `script` | scripts: commands, the actions of others, and what is expected of them | `stack` |
//! | `stack` | a local stack | `stack` |
//! | `pages`, `command`, `wait` | facts from `docs/`, output of a command, polling | |

#![allow(
    missing_docs,
    reason = "an internal crate: comments are where a name does not say enough"
)]
#![allow(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "in test support, a panic is the message"
)]

pub use fastrand::Rng;

#[cfg(feature = "stack")]
mod actions;
#[cfg(feature = "stack")]
pub mod attached;
#[cfg(feature = "stack")]
mod attached_actions;
pub mod cases;
#[cfg(feature = "cloud")]
pub mod cloud;
pub mod command;
#[cfg(feature = "stack")]
pub mod database;
#[cfg(feature = "stack")]
pub mod endpoint;
#[cfg(feature = "stack")]
mod expectations;
pub mod hostile;
pub mod http;
pub mod iam;
pub mod pages;
#[cfg(feature = "stack")]
pub mod policies;
#[cfg(feature = "replay")]
pub mod replay;
pub mod requests;
#[cfg(feature = "stack")]
pub mod script;
#[cfg(feature = "replay")]
pub mod scripted;
pub mod serving;
#[cfg(feature = "stack")]
pub mod stack;
#[cfg(feature = "stack")]
pub mod table;
#[cfg(feature = "stack")]
pub mod tap;
#[cfg(feature = "stack")]
pub mod updates;
#[cfg(feature = "stack")]
pub mod vzero;
#[cfg(feature = "stack")]
pub mod wait;
#[cfg(feature = "stack")]
pub mod world;
