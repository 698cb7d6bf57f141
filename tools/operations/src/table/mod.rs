//! The table itself: its creation, its settings, and the adoption of its layout.

pub mod adopt;
mod copy_history;
pub mod create;
pub(crate) mod owner;
pub mod settings;
