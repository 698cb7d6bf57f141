//! Output of the command: the progress block, the item collections, the commands to try, and the dump of the table.

pub mod activity;
pub mod attached;
pub mod commands;
pub mod dump;
pub mod history;
mod latest_error;
mod rate;
pub mod screen;
pub mod show;
pub mod view;
