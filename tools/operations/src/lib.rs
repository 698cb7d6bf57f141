//! Operations on a versioned table: audit, backfill, prune, purge, redrive and repair.
//!
//! This is the library under the command `vzero` and the history console. It has no command line and prints nothing: a
//! long run either is a value whose `step` the caller repeats ([`audit`], [`backfill`], [`prune`]), or reports to a
//! [`Progress`](progress::Progress). A run that was interrupted resumes from its checkpoint. Every error is an
//! [`OperationError`](error::OperationError), whose kind decides the exit code or the HTTP status.
#![allow(
    missing_docs,
    reason = "an internal crate: comments are where a name does not say enough"
)]

pub mod all_versions;
pub mod as_of;
pub mod audit;
pub mod backfill;
pub mod connection;
pub mod erase;
pub mod error;
#[cfg(feature = "recovery")]
pub mod failures;
pub mod hold;
pub mod item_change;
pub mod latest;
pub mod metadata;
pub mod progress;
pub mod prune;
pub mod purge;
pub mod quarantine;
pub mod rate_limit;
pub mod read;
#[cfg(feature = "recovery")]
pub mod redrive;
#[cfg(feature = "recovery")]
pub mod repair;
pub mod request_error;
pub mod revision;
pub mod sealed;
pub mod segments;
pub mod snapshot;
pub mod stream_record;
pub mod table;
pub mod table_size;
pub mod tables;
pub mod time_index;
pub mod undo;
pub mod value_file;
pub mod version_set;
pub mod waiting;

#[cfg(test)]
mod test_requests;
