//! Recent requests of a latest item: the map by which a repeated update is detected as a duplicate.
//!
//! `RecentRequests` maps a short hash of each request id to the version that the request created. It holds the last
//! requests of the entity, at least as many as the [`Window`] says. The map is not part of any version item.

use std::{collections::HashMap, fmt, str::FromStr};

use thiserror::Error;

use super::{
    AttributeValue, Item,
    attributes::text,
    names,
    number::Decimal,
    request_id::{RequestHash, RequestId},
    version::Version,
};

/// Minimum number of an entity's last requests that are detected as duplicates, from 1 to 100.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window(u8);

impl Window {
    /// Largest window: the number of entries that one expression can remove.
    pub const MAX: u8 = 100;
    /// Only the last request, whose id is an attribute of the latest item.
    pub const LAST: Self = Self(1);

    /// Returns `None` outside 1 to [`Self::MAX`].
    pub fn new(requests: u8) -> Option<Self> {
        (1..=Self::MAX).contains(&requests).then_some(Self(requests))
    }

    /// Returns the minimum number of requests that are detected.
    pub fn get(self) -> usize {
        usize::from(self.0)
    }

    /// Returns the number of entries from which the map is pruned: one and a half windows, so that not every update has to
    /// prune. With the default window the map has at most 24 entries of 15 to 20 bytes.
    pub fn full(self) -> usize {
        self.get() + (self.get() / 2).max(1)
    }

    /// Returns the maximum number of entries of the map.
    pub fn max_entries(self) -> usize {
        2 * self.get()
    }
}

impl Default for Window {
    fn default() -> Self {
        Self(16)
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Window {
    type Err = InvalidWindow;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().ok().and_then(Self::new).ok_or(InvalidWindow)
    }
}

/// The text is not a number from 1 to [`Window::MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the window is a number from 1 to {max}", max = Window::MAX)]
pub struct InvalidWindow;

/// Returns the recent requests of a latest item, `None` if it has no map.
pub fn requests_of(latest: &Item) -> Option<&HashMap<String, AttributeValue>> {
    match latest.get(names::RECENT_REQUESTS) {
        Some(AttributeValue::M(requests)) => Some(requests),
        _ => None,
    }
}

/// Returns the version that a request created, if it is among the recent requests.
pub fn version_of(latest: &Item, request: &RequestHash) -> Option<Version> {
    requests_of(latest)?.get(request.as_str()).and_then(version)
}

/// Returns the hash of the request that created an item, from its `RequestId`.
pub fn last_request(item: &Item) -> Option<RequestHash> {
    let id = RequestId::new(text(item, names::REQUEST_ID)?).ok()?;
    Some(RequestHash::of(&id))
}

/// Maximum number of entries that one update removes: an expression is at most 4 KB long. A window that was reduced is
/// reached in several updates.
pub const MAX_REMOVED: usize = 60;

/// Returns the oldest entries, at most [`MAX_REMOVED`], whose removal leaves the map with one window of entries after one
/// more request.
pub fn oldest(requests: &HashMap<String, AttributeValue>, window: Window) -> Vec<(String, AttributeValue)> {
    let mut sorted: Vec<_> = requests.iter().collect();
    // An entry without a version cannot be used to detect a duplicate.
    sorted.sort_by_key(|(hash, value)| (version(value).map_or(0, Version::get), hash.as_str()));
    let surplus = (requests.len() + 1).saturating_sub(window.get());
    let oldest = sorted.into_iter().take(surplus.min(MAX_REMOVED));
    oldest.map(|(hash, value)| (hash.clone(), value.clone())).collect()
}

fn version(value: &AttributeValue) -> Option<Version> {
    match value {
        AttributeValue::N(text) => Version::new(Decimal::parse(text).ok()?.to_u64()?),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_window_has_bounds() {
        for (text, expected) in [
            ("1", Some(1)),
            ("16", Some(16)),
            ("100", Some(100)),
            ("0", None),
            ("101", None),
            ("256", None),
            ("-1", None),
            ("", None),
            ("many", None),
        ] {
            assert_eq!(text.parse::<Window>().ok().map(Window::get), expected, "{text}");
        }
    }

    #[test]
    fn a_pruned_map_has_one_window_of_entries_after_one_more_request() {
        for size in 1..=Window::MAX {
            let window = Window::new(size).unwrap();
            assert!(window.full() <= window.max_entries(), "{window}");
            for held in 0..=window.max_entries() {
                let requests: HashMap<_, _> = (1..=held)
                    .map(|n| (format!("h{n}"), AttributeValue::N(n.to_string())))
                    .collect();
                let removed = oldest(&requests, window);
                let surplus = (held + 1).saturating_sub(window.get());
                assert_eq!(removed.len(), surplus.min(MAX_REMOVED), "{window} of {held}");
                assert!(held > window.full() || surplus <= MAX_REMOVED, "{window}");
                let expected: Vec<_> = (1..=removed.len()).map(|n| format!("h{n}")).collect();
                let names: Vec<_> = removed.into_iter().map(|(hash, _)| hash).collect();
                assert_eq!(names, expected);
            }
        }
    }

    #[test]
    fn versions_are_compared_as_numbers_and_invalid_ones_are_removed_first() {
        let requests = json!({"a": {"N": "10"}, "b": {"N": "9"}, "c": {"S": "11"}, "d": {"N": "1.1E1"}});
        let requests: HashMap<String, AttributeValue> = serde_json::from_value(requests).unwrap();
        let order: Vec<_> = oldest(&requests, Window::LAST)
            .into_iter()
            .map(|(hash, _)| hash)
            .collect();
        assert_eq!(order, ["c", "b", "a", "d"]);
    }

    #[test]
    fn a_request_is_found_by_its_hash() {
        let hash = RequestHash::of(&RequestId::new("abc").unwrap());
        // The first 8 bytes of SHA-256("abc"), ba7816bf8f01cfea.
        assert_eq!(hash.as_str(), "ungWv48Bz-o");
        let latest = |requests| serde_json::from_value::<Item>(json!({"RecentRequests": requests})).unwrap();
        let found = |requests| version_of(&latest(requests), &hash).map(Version::get);
        assert_eq!(
            found(json!({"M": {"ungWv48Bz-o": {"N": "7"}, "x": {"N": "8"}}})),
            Some(7)
        );
        assert_eq!(found(json!({"M": {"x": {"N": "8"}}})), None);
        assert_eq!(found(json!({"S": "manual"})), None);
    }
}
