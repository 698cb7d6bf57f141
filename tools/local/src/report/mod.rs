//! Output of the command: the progress block, the item collections, and the dump of the table.

pub mod activity;
pub mod dump;
pub mod history;
pub mod screen;
pub mod show;
pub mod view;
