//! Addresses of the console's pages.

use std::iter;

use item_diff::path::Path;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::current;

/// Parameter that names the table.
pub(crate) const TABLE: &str = "table";

pub(crate) const SIGN_IN: &str = "/sign-in";
/// Path prefix of the static files. They need no token.
pub(crate) const ASSETS: &str = "/assets/";
/// Maximum number of characters of a link to a path.
const MAX_LINK: usize = 1000;
/// Characters of a query value that are percent-encoded.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Returns a path with a query, of the table of the current request. Pairs without a value are left out.
pub(crate) fn link<'a>(path: &str, query: impl IntoIterator<Item = (&'a str, Option<String>)>) -> String {
    link_to(current::parameter(), path, query)
}

/// Returns the address of a page without parameters.
pub(crate) fn page(path: &str) -> String {
    link(path, [])
}

/// Returns the path with a query, of a table. `None` stands for the table that the console was started for.
pub(crate) fn link_to<'a>(
    table: Option<String>,
    path: &str,
    query: impl IntoIterator<Item = (&'a str, Option<String>)>,
) -> String {
    let pairs = iter::once((TABLE, table)).chain(query).filter_map(|(name, value)| {
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

/// Adds a path to an address. `None` if it is long: a name can have 64 KB, and a page many links.
pub(crate) fn at_path(address: &str, path: &Path) -> Option<String> {
    let path = path.to_string();
    let is_short = address.len() + path.len() <= MAX_LINK;
    is_short.then(|| format!("{address}&path={}", utf8_percent_encode(&path, ENCODED)))
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
