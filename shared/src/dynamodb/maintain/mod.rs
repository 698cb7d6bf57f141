//! Maintenance: the table itself, backfill, audit, prune, purge, and the repair of a latest item.

pub mod adopt_table;
pub mod audit;
pub mod audit_segment;
pub mod backfill;
pub mod copy_history;
pub mod create_table;
pub mod enable_stream;
pub mod move_latest;
pub mod prune;
pub mod purge;
pub mod purge_marker;
pub mod raise_latest;
pub mod rate_limit;
mod requests_from_history;
pub mod revive_latest;
pub mod segment_entities;
pub mod table_settings;
