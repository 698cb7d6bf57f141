//! Reads: items, pages of items, versions, and the table's description.

pub mod batch_get_items;
pub mod describe_table;
pub mod get_item;
pub mod history_owner;
pub mod latest_versions;
pub mod layout_error;
pub mod newest_version;
pub mod parts;
pub mod query_items;
pub mod scan_items;
pub mod stored_definition;
pub mod table_config;
pub mod table_identity;
pub mod tail;
pub mod versions;
