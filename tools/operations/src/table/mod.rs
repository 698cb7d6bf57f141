//! The table itself: its creation, its settings, and the adoption of its layout.

pub mod adopt;
pub mod copy_history;
pub mod create;
pub mod owner;
pub mod settings;
pub mod state;
