//! Output of the command: progress, the items of the entities, the commands to try, and the dump of the table.

pub mod activity;
pub mod attached;
pub mod commands;
pub mod dump;
pub mod history;
pub mod items;
mod latest_error;
pub mod progress;
