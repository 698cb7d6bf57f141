//! What an address asks for.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::{Deserialize, Deserializer};
use shared::domain::{entity::EntityId, version::Version};

use crate::error::PageError;

/// What stands as it is in the value of a query.
const VALUE: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A path of the console, with a query. What is none is left out.
pub(super) fn link<'a>(path: &str, query: impl IntoIterator<Item = (&'a str, Option<String>)>) -> String {
    let pairs = query.into_iter().filter_map(|(name, value)| {
        let value = value?;
        Some(format!("{name}={}", utf8_percent_encode(&value, VALUE)))
    });
    let pairs: Vec<_> = pairs.collect();
    match pairs.is_empty() {
        true => path.to_owned(),
        false => format!("{path}?{}", pairs.join("&")),
    }
}

/// A field that was left empty was not given.
pub(super) fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    Ok(text.filter(|text| !text.is_empty()))
}

/// The entity of an address.
pub(super) fn entity(id: Option<&str>) -> Result<EntityId, PageError> {
    let id = id.ok_or_else(|| PageError::Invalid("the address names no entity: id".to_owned()))?;
    Ok(EntityId::new(id)?)
}

/// A version of an address, where there is one.
pub(super) fn version(name: &str, text: Option<&str>) -> Result<Option<Version>, PageError> {
    let Some(text) = text else { return Ok(None) };
    let number = text.trim().parse().ok().and_then(Version::new);
    let number = number.ok_or_else(|| PageError::Invalid(format!("{name}: versions are numbers, and count from 1")))?;
    Ok(Some(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_keeps_what_is_in_a_key() {
        let id = "a/b?c&d=e#f%20g \"<ü>";
        let link = link("/entity", [("id", Some(id.to_owned())), ("before", None)]);
        assert_eq!(link, "/entity?id=a%2Fb%3Fc%26d%3De%23f%2520g%20%22%3C%C3%BC%3E");
    }

    #[test]
    fn versions_count_from_one() {
        for text in ["0", "-1", "x", "1.5", "18446744073709551616"] {
            assert!(version("version", Some(text)).is_err(), "{text}");
        }
        assert_eq!(version("version", Some(" 7")).unwrap(), Version::new(7));
        assert_eq!(version("version", None).unwrap(), None);
    }
}
