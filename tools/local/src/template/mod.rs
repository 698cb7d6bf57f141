//! `template.yaml`: the only source of the stack's settings.

pub mod alarms;
pub mod attach;
mod error;
mod parse;
pub mod policies;
pub mod queues;
pub mod resolve;
mod rules;
mod yaml;

pub use self::{
    error::TemplateError,
    parse::{ChangeStream, Function, Table, Template},
};

#[cfg(test)]
mod tests;
