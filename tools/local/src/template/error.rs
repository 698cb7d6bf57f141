//! Errors of a template, and typed access to its values.

use serde_json::{Map, Value};
use thiserror::Error;

use super::resolve::{Unresolved, text};
use crate::mapping::settings::InvalidSettings;

pub(super) fn number(value: Option<Value>, default: u64, place: &str, name: &str) -> Result<u64, TemplateError> {
    match value {
        None => Ok(default),
        Some(value) => text(&value).parse().map_err(|_| TemplateError::invalid(place, name)),
    }
}

pub(super) fn object<'a>(value: Option<&'a Value>, place: &str) -> Result<&'a Map<String, Value>, TemplateError> {
    value
        .and_then(Value::as_object)
        .ok_or_else(|| TemplateError::NotAnObject(place.to_owned()))
}

#[derive(Debug, Error)]
pub enum TemplateError {
    #[error("cannot read the file")]
    Read(#[source] std::io::Error),
    #[error("it is not YAML")]
    Yaml(#[source] saphyr::ScanError),
    #[error("it is not one YAML document")]
    Documents,
    #[error("{0} has no {1}")]
    Missing(String, &'static str),
    #[error("{0} is missing or not an object")]
    NotAnObject(String),
    #[error("invalid value of {1} in {0}")]
    Invalid(String, String),
    /// A property of a mapping is not supported and could change its behaviour.
    #[error("{0} has {1}, which the local stack does not support")]
    Unsupported(String, String),
    #[error("invalid settings of {0}")]
    Settings(String, #[source] InvalidSettings),
    #[error(transparent)]
    Unresolved(#[from] Unresolved),
    /// A parameter violates a rule of the template; the description of the assertion.
    #[error("the parameters violate the rule {0}: {1}")]
    Rule(String, String),
    #[error("it does not have exactly one event of type DynamoDB")]
    Mappings,
}

impl TemplateError {
    pub(super) fn missing(place: &str, what: &'static str) -> Self {
        Self::Missing(place.to_owned(), what)
    }

    pub(super) fn invalid(place: &str, name: &str) -> Self {
        Self::Invalid(place.to_owned(), name.to_owned())
    }
}
