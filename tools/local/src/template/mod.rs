//! `template.yaml`: the only source of the stack's settings.

mod parse;
pub mod resolve;
pub mod yaml;

use thiserror::Error;

#[cfg(test)]
pub(crate) use self::parse::mapping_settings;
pub use self::parse::{Function, Table, Template};
use crate::mapping::filter::InvalidFilter;

#[derive(Debug, Error)]
pub enum TemplateError {
    #[error("cannot read the file")]
    Read(#[source] std::io::Error),
    #[error("it is not YAML")]
    Yaml(#[source] saphyr::ScanError),
    #[error("a pattern of FilterCriteria in {0} cannot be read")]
    Filter(String, #[source] InvalidFilter),
    /// A part of the template is missing, invalid, or not supported.
    #[error("{0}")]
    Invalid(String),
}

fn invalid(what: impl Into<String>) -> TemplateError {
    TemplateError::Invalid(what.into())
}

#[cfg(test)]
pub(crate) mod tests;
