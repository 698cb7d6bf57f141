//! What a latest item remembers of the requests that made it.
//!
//! Its map `RecentRequests` holds the version that each of the last requests got, under a short hash of the request's
//! id. It is part of no version: history is about the entity, not about who delivered what how often.

use std::{collections::HashMap, fmt, str::FromStr};

use thiserror::Error;

use super::{
    AttributeValue, Item, names,
    number::Decimal,
    request_id::{RequestHash, RequestId},
    version::Version,
};

/// How many of the last requests of an entity are known again, from 1 to 100.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window(u8);

impl Window {
    /// What one expression can prune.
    pub const MAX: u8 = 100;
    /// The last request only, which the latest item carries anyway.
    pub const LAST: Self = Self(1);

    /// `None` outside 1 to [`Self::MAX`].
    pub fn new(requests: u8) -> Option<Self> {
        (1..=Self::MAX).contains(&requests).then_some(Self(requests))
    }

    /// How many requests are known again at least.
    pub fn get(self) -> usize {
        usize::from(self.0)
    }

    /// From how many on the map is pruned: half as many again, so that not every update has to. It bounds the map to less
    /// than twice the window, and with the default window to 24 entries of 15 to 20 bytes.
    pub fn full(self) -> usize {
        self.get() + (self.get() / 2).max(1)
    }

    /// What the map never exceeds.
    pub fn most(self) -> usize {
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

/// Not a number from 1 to [`Window::MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the window is a number from 1 to {max}", max = Window::MAX)]
pub struct InvalidWindow;

/// What a latest item remembers. `None` where it has no map.
pub fn remembered(latest: &Item) -> Option<&HashMap<String, AttributeValue>> {
    match latest.get(names::RECENT_REQUESTS) {
        Some(AttributeValue::M(requests)) => Some(requests),
        _ => None,
    }
}

/// The version that a request got, where the latest item remembers it.
pub fn version_of(latest: &Item, request: &RequestHash) -> Option<Version> {
    remembered(latest)?.get(request.as_str()).and_then(version)
}

/// The request that made an item, as it names it.
pub fn last_request(item: &Item) -> Option<RequestHash> {
    match item.get(names::REQUEST_ID) {
        Some(AttributeValue::S(id)) => Some(RequestHash::of(&RequestId::new(id.clone()).ok()?)),
        _ => None,
    }
}

/// The most that is forgotten at once, by what fits an expression of 4 KB. A smaller window is reached in steps.
pub const MOST_FORGOTTEN: usize = 60;

/// What has to be forgotten so that the map holds the window after one more request, up to [`MOST_FORGOTTEN`]: the oldest
/// first.
pub fn oldest(requests: &HashMap<String, AttributeValue>, window: Window) -> Vec<(String, AttributeValue)> {
    let mut sorted: Vec<_> = requests.iter().collect();
    // What has no version is nothing that can be known again.
    sorted.sort_by_key(|(hash, value)| (version(value).map_or(0, Version::get), hash.as_str()));
    let surplus = (requests.len() + 1).saturating_sub(window.get());
    let oldest = sorted.into_iter().take(surplus.min(MOST_FORGOTTEN));
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
    fn a_pruned_map_and_one_more_request_are_the_window() {
        for size in 1..=Window::MAX {
            let window = Window::new(size).unwrap();
            assert!(window.full() <= window.most(), "{window}");
            for held in 0..=window.most() {
                let requests: HashMap<_, _> = (1..=held)
                    .map(|n| (format!("h{n}"), AttributeValue::N(n.to_string())))
                    .collect();
                let forgotten = oldest(&requests, window);
                let surplus = (held + 1).saturating_sub(window.get());
                assert_eq!(forgotten.len(), surplus.min(MOST_FORGOTTEN), "{window} of {held}");
                assert!(held > window.full() || surplus <= MOST_FORGOTTEN, "{window}");
                let expected: Vec<_> = (1..=forgotten.len()).map(|n| format!("h{n}")).collect();
                let names: Vec<_> = forgotten.into_iter().map(|(hash, _)| hash).collect();
                assert_eq!(names, expected);
            }
        }
    }

    #[test]
    fn versions_are_compared_as_numbers_and_what_is_none_goes_first() {
        let requests = json!({"a": {"N": "10"}, "b": {"N": "9"}, "c": {"S": "11"}, "d": {"N": "1.1E1"}});
        let requests: HashMap<String, AttributeValue> = serde_json::from_value(requests).unwrap();
        let order: Vec<_> = oldest(&requests, Window::LAST)
            .into_iter()
            .map(|(hash, _)| hash)
            .collect();
        assert_eq!(order, ["c", "b", "a", "d"]);
    }

    #[test]
    fn a_request_is_known_again_by_its_hash() {
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
        assert_eq!(found(json!({"S": "by hand"})), None);
    }
}
