//! The commands. Each file owns the arguments of its command.

pub(crate) mod attach;
pub(crate) mod audit;
pub(crate) mod backfill;
pub(crate) mod blame;
pub(crate) mod console;
pub(crate) mod diff;
pub(crate) mod entity;
mod filters;
pub(crate) mod get;
pub(crate) mod hold;
mod item_write;
pub(crate) mod log;
pub(crate) mod prune;
pub(crate) mod purge;
pub(crate) mod quarantine;
mod read_cost;
pub(crate) mod redrive;
pub(crate) mod repair;
pub(crate) mod restore;
mod segments;
mod services;
pub(crate) mod snapshot;
pub(crate) mod state;
pub(crate) mod table;
pub(crate) mod undo;
pub(crate) mod values;
pub(crate) mod write;
