//! Undo: takes back selected versions of an entity, and keeps what came after them.
//!
//! ```text
//! history ─> selection ─> three-way merge ─> plan of an entity ─> one write, if the entity is still as the plan saw it
//! ```
//!
//! The merge is [`item_diff::undo`]. A plan that was carried out has nothing left to do, so a run that was interrupted is repeated.

pub mod apply;
mod history;
pub mod options;
pub mod plan;
pub mod selection;
pub mod table;
