//! Reads: items, pages of items, versions, and the table's description.

pub mod as_of;
pub mod attachable_table;
pub mod batch_get_items;
pub mod describe_table;
pub mod effective_at;
pub mod get_item;
pub mod history;
pub mod history_owner;
pub mod item_collection;
pub mod latest_versions;
pub mod newest_version;
mod parts;
pub mod quarantined;
pub mod query_items;
pub mod sample_items;
pub mod scan_items;
pub mod scan_latest;
pub mod scan_request;
pub mod scan_segment;
pub mod sort_keys;
pub mod table_config;
pub mod table_identity;
pub mod table_state;
pub mod tail;
pub mod version_run;
pub mod versions;
pub mod versions_in_history;
