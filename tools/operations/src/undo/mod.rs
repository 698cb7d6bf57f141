//! Undo: takes back selected versions of an entity, and keeps what came after them.
//!
//! ```text
//! history ─> selection ─> three-way merge ─> plan of an entity ─> one write, if the entity is still as the plan saw it
//! ```
//!
//! A plan of a table reads the histories of those entities only of which the scan shows a selected version, or that a version is missing, from
//! the first selected version on.
//!
//! The merge is [`item_diff::undo`]. A plan that was carried out has nothing left to do, so a run that was interrupted is repeated.

pub mod apply;
mod history;
pub mod options;
pub mod plan;
pub mod planned;
pub mod selection;
pub mod set_file;
pub mod table;
