//! Output of the command: progress, the entities, the commands to try, and the dump of the table.

pub mod activity;
pub mod commands;
pub mod documents;
pub mod dump;
pub mod history;
pub mod items;
pub mod progress;
