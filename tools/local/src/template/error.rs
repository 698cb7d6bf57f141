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

/// Why a template cannot be run here.
#[derive(Debug, Error)]
pub enum TemplateError {
    /// No such file, or no permission.
    #[error("it cannot be read")]
    Read(#[source] std::io::Error),
    /// Not YAML.
    #[error("it is not YAML")]
    Yaml(#[source] saphyr::ScanError),
    /// YAML that is no template: empty, or of several documents.
    #[error("it is not one YAML document")]
    Documents,
    /// Something that has to be there.
    #[error("{place} has no {what}")]
    Missing {
        /// Where.
        place: String,
        /// What.
        what: &'static str,
    },
    /// Something that is made of members.
    #[error("{0} is missing or not an object")]
    NotAnObject(String),
    /// A value that its property does not take.
    #[error("{name} of {place} has a value that it does not take")]
    Invalid {
        /// Where.
        place: String,
        /// Which property.
        name: String,
    },
    /// A property of a mapping that would change its behaviour, and is not known here.
    #[error("{place} has {name}, which the local stack does not know")]
    Unsupported {
        /// Where.
        place: String,
        /// Which property.
        name: String,
    },
    /// Settings outside Lambda's own bounds.
    #[error("{0} is refused")]
    Settings(String, #[source] InvalidSettings),
    /// An intrinsic function or a parameter.
    #[error(transparent)]
    Unresolved(#[from] Unresolved),
    /// There must be one stream to deliver.
    #[error("it does not have exactly one event of type DynamoDB")]
    Mappings,
    /// There may be one queue that feeds a function.
    #[error("it has several events of type SQS")]
    Queues,
}

impl TemplateError {
    pub(super) fn missing(place: &str, what: &'static str) -> Self {
        Self::Missing {
            place: place.to_owned(),
            what,
        }
    }

    pub(super) fn invalid(place: &str, name: &str) -> Self {
        Self::Invalid {
            place: place.to_owned(),
            name: name.to_owned(),
        }
    }
}
