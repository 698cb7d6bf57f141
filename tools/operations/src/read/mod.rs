//! Reads that only operators and their programs need.

pub mod attached_items;
pub(crate) mod each_version;
pub mod item_collection;
pub mod quarantined;
pub mod scan_latest;
pub mod scan_request;
pub mod version_run;
pub mod versions_in_history;
