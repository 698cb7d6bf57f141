//! Writes of the latest item, and of the items that are written with it.

pub mod cancellation;
pub mod earlier_delivery;
pub mod ended_state;
pub mod expression;
pub mod form;
pub mod inline;
pub mod ledger;
pub mod lifetime;
pub mod metadata;
pub(crate) mod modes;
pub mod order;
pub(crate) mod outcome;
pub(crate) mod preview;
pub mod recent_requests;
pub mod restore;
pub mod transaction;
pub(crate) mod uncounted;
pub mod write_version;

pub use modes::{Idempotency, InvalidIdempotency, InvalidWriteMode, WriteMode, WriteOptions};
pub use outcome::{WriteError, WriteOutcome};
