//! The latest item of an entity: steps of a repair, and the number from which its counter continues.

pub mod move_latest;
pub mod raise_latest;
pub mod recount;
pub mod repair;
mod requests_from_history;
pub mod revive_latest;
