//! Addresses of the console's pages.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

pub(crate) const SIGN_IN: &str = "/sign-in";
/// Path prefix of the static files. They need no token.
pub(crate) const ASSETS: &str = "/assets/";
/// Characters of a query value that are percent-encoded.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Returns a path with a query. Pairs without a value are left out.
pub(crate) fn link<'a>(path: &str, query: impl IntoIterator<Item = (&'a str, Option<String>)>) -> String {
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

pub(crate) fn of_entity(path: &str, id: &str) -> String {
    link(path, [("id", Some(id.to_owned()))])
}

pub(crate) fn version(path: &str, id: &str, version: u64) -> String {
    format!("{}&version={version}", of_entity(path, id))
}

pub(crate) fn compare(id: &str, from: u64, to: u64) -> String {
    format!("{}&from={from}&to={to}", of_entity("/compare", id))
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
}
