//! `template.yaml`: the only source of the stack's settings.

#[cfg(test)]
pub(crate) mod alarms;
mod error;
mod parse;
pub mod policies;
pub mod resolve;
pub mod yaml;

#[cfg(test)]
pub(crate) use self::parse::mapping_settings;
pub use self::{
    error::TemplateError,
    parse::{Function, Table, Template},
};

#[cfg(test)]
mod tests;
