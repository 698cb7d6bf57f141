//! Errors of a template.

use thiserror::Error;

use crate::mapping::settings::InvalidSettings;

#[derive(Debug, Error)]
pub enum TemplateError {
    #[error("cannot read the file")]
    Read(#[source] std::io::Error),
    #[error("it is not YAML")]
    Yaml(#[source] saphyr::ScanError),
    #[error("invalid settings of {0}")]
    Settings(String, #[source] InvalidSettings),
    /// A part of the template is missing, invalid, or not supported.
    #[error("{0}")]
    Invalid(String),
}

pub(super) fn invalid(what: impl Into<String>) -> TemplateError {
    TemplateError::Invalid(what.into())
}
