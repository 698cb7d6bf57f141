//! Parameters of queries and forms.

use std::{collections::HashMap, error::Error};

use serde::Deserialize;
use shared::domain::{entity::EntityId, version::Version};

use crate::{current, error::PageError};

/// Parameters of a page or of a form. One that is empty is missing.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub(super) struct Query(HashMap<String, String>);

impl Query {
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|text| !text.is_empty())
    }

    /// Returns the parameters whose names begin with a text, sorted.
    pub(super) fn starting(&self, prefix: &str) -> Vec<(&str, &str)> {
        let pairs = self.0.iter().filter(|(name, _)| name.starts_with(prefix));
        let mut pairs: Vec<_> = pairs.map(|(name, value)| (name.as_str(), value.as_str())).collect();
        pairs.sort_unstable();
        pairs
    }

    pub(super) fn entity(&self) -> Result<EntityId, PageError> {
        Ok(current::entity(self.text("id").ok_or(PageError::Missing("id"))?)?)
    }

    /// Parses a parameter, if it is there.
    pub(super) fn parsed<T, E: Error + Send + Sync + 'static>(
        &self,
        name: &'static str,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Result<Option<T>, PageError> {
        let parsed = self.text(name).map(parse).transpose();
        parsed.map_err(|error| PageError::Invalid(name, error.into()))
    }

    pub(super) fn version(&self, name: &'static str) -> Result<Option<Version>, PageError> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let version = text.trim().parse().ok().and_then(Version::new);
        let invalid = PageError::Unexpected(name, "a version number, 1 or higher");
        version.map(Some).ok_or(invalid)
    }

    pub(super) fn required_version(&self, name: &'static str) -> Result<Version, PageError> {
        self.version(name)?.ok_or(PageError::Missing(name))
    }

    /// Returns what a parameter selects, the first choice without it. `expected` names the choices.
    pub(super) fn choice<T: Copy>(
        &self,
        name: &'static str,
        choices: &[(&str, T)],
        expected: &'static str,
    ) -> Result<T, PageError> {
        let text = self.text(name);
        let chosen = choices
            .iter()
            .find(|(choice, _)| text.is_none_or(|text| text == *choice));
        chosen
            .map(|(_, chosen)| *chosen)
            .ok_or(PageError::Unexpected(name, expected))
    }
}
