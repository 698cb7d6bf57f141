//! Reads that only operators and their programs need.

pub mod attached_items;
pub mod history;
pub mod item_collection;
pub mod lag;
pub(crate) mod paced;
pub mod scan_items;
pub mod scan_latest;
pub mod scan_request;
pub mod sort_keys;
pub mod version_run;
pub mod versions_in_history;
