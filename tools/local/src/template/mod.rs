//! `template.yaml`: the only source of the stack's settings.

mod parse;
pub mod resolve;
pub mod yaml;

#[cfg(test)]
pub(crate) use self::parse::mapping_settings;
pub use self::parse::{Function, Table, Template};

#[cfg(test)]
mod tests;
