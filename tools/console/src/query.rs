//! Parameters of queries and forms, and addresses of pages.

use std::{error::Error, ops::Deref};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use shared::domain::{entity::EntityId, version::Version};

use crate::error::PageError;

/// Characters of a query value that are percent-encoded.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A parameter, `None` if it is missing or empty.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(from = "Option<String>")]
pub(super) struct Param(pub(super) Option<String>);

impl From<Option<String>> for Param {
    fn from(text: Option<String>) -> Self {
        Self(text.filter(|text| !text.is_empty()))
    }
}

impl Deref for Param {
    type Target = Option<String>;

    fn deref(&self) -> &Option<String> {
        &self.0
    }
}

impl Param {
    pub(super) fn required(&self, name: &'static str) -> Result<&str, PageError> {
        self.as_deref().ok_or(PageError::Missing(name))
    }

    pub(super) fn entity(&self) -> Result<EntityId, PageError> {
        Ok(EntityId::new(self.required("id")?)?)
    }

    /// Parses the parameter, if it is there.
    pub(super) fn parsed<T, E: Error + Send + Sync + 'static>(
        &self,
        field: &'static str,
        parse: fn(&str) -> Result<T, E>,
    ) -> Result<Option<T>, PageError> {
        let parsed = self.as_deref().map(parse).transpose();
        parsed.map_err(|error| PageError::Invalid(field, error.into()))
    }

    pub(super) fn version(&self, field: &'static str) -> Result<Option<Version>, PageError> {
        let Some(text) = self.as_deref() else { return Ok(None) };
        let version = text.trim().parse().ok().and_then(Version::new);
        let invalid = PageError::Unexpected(field, "a version number, 1 or higher");
        version.map(Some).ok_or(invalid)
    }
}

/// Returns a path with a query. Pairs without a value are left out.
pub(super) fn link<'a>(path: &str, query: impl IntoIterator<Item = (&'a str, Option<String>)>) -> String {
    let pairs = query.into_iter().filter_map(|(name, value)| {
        let value = value?;
        Some(format!("{name}={}", utf8_percent_encode(&value, ENCODED)))
    });
    let pairs: Vec<_> = pairs.collect();
    match pairs.is_empty() {
        true => path.to_owned(),
        false => format!("{path}?{}", pairs.join("&")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_encode_reserved_characters() {
        let id = "a/b?c&d=e#f%20g \"<ü>";
        let link = link("/entity", [("id", Some(id.to_owned())), ("before", None)]);
        assert_eq!(link, "/entity?id=a%2Fb%3Fc%26d%3De%23f%2520g%20%22%3C%C3%BC%3E");
    }

    #[test]
    fn versions_count_from_one() {
        let parse = |text: &str| Param::from(Some(text.to_owned())).version("version");
        for text in ["0", "-1", "x", "1.5", "18446744073709551616"] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert_eq!(parse(" 7").unwrap(), Version::new(7));
        assert_eq!(parse("").unwrap(), None);
    }
}
