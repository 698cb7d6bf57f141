//! The ledger: a marker for every request, kept longer than anything delivers again.

use std::{collections::HashMap, fmt, str::FromStr, time::Duration};

use thiserror::Error;

use super::{
    AttributeValue, Item, names, number::Decimal, payload::Payload, request_id::RequestId, update::Update,
    version::Version,
};

/// What a marker's sort key begins with.
pub const PREFIX: &str = "request#";
/// The attribute of a marker that says which version its request made.
pub const VERSION: &str = "Version";
/// The attribute of a marker that tells its update from others.
pub const PAYLOAD: &str = "Payload";

/// How long markers are kept, in days.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention(u16);

impl Retention {
    /// `None` outside 1 day to 10 years.
    pub fn days(days: u16) -> Option<Self> {
        (1..=3650).contains(&days).then_some(Self(days))
    }

    /// As a time.
    pub fn duration(self) -> Duration {
        Duration::from_secs(u64::from(self.0) * 86_400)
    }
}

impl Default for Retention {
    /// Longer than a stream keeps its records (1 day) and Lambda an event (6 hours), and than an operator is away.
    fn default() -> Self {
        Self(8)
    }
}

impl fmt::Display for Retention {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Retention {
    type Err = InvalidRetention;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().ok().and_then(Self::days).ok_or(InvalidRetention)
    }
}

/// Not a number of days from 1 to 3650.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("markers are kept for 1 to 3650 days")]
pub struct InvalidRetention;

/// The sort key of a request's marker.
pub fn sort_key(request: &RequestId) -> String {
    format!("{PREFIX}{}", request.as_str())
}

/// What a marker says of its request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marker {
    /// The version that the request made.
    pub version: Version,
    /// Which update it was.
    pub payload: Payload,
}

impl Marker {
    /// The item of a marker that expires at this time, in epoch seconds.
    pub fn item(&self, update: &Update, expires: u64) -> Item {
        let s = |text: &str| AttributeValue::S(text.to_owned());
        Item::from(HashMap::from([
            (names::PK.to_owned(), s(update.entity.as_str())),
            (names::SK.to_owned(), s(&sort_key(&update.request_id))),
            (VERSION.to_owned(), AttributeValue::N(self.version.to_string())),
            (PAYLOAD.to_owned(), s(self.payload.as_str())),
            (names::TTL.to_owned(), AttributeValue::N(expires.to_string())),
        ]))
    }

    /// The marker that an item is.
    pub fn from_item(item: &Item) -> Option<Self> {
        let (Some(AttributeValue::N(version)), Some(AttributeValue::S(payload))) =
            (item.get(VERSION), item.get(PAYLOAD))
        else {
            return None;
        };
        Some(Self {
            version: Version::new(Decimal::parse(version).ok()?.to_u64()?)?,
            payload: Payload::stored(payload),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::domain::update::Ordering;

    fn update(json: Value) -> Update {
        Update::parse(json, "r-1", Ordering::Arrival).unwrap()
    }

    #[test]
    fn the_same_update_has_the_same_payload_and_no_other_has() {
        let same = |a: Value, b: Value| update(a).payload() == update(b).payload();
        let plain = json!({"ID": "E", "A": 1, "B": {"x": 1, "y": [true, null]}});
        assert!(same(plain.clone(), plain.clone()));
        assert!(same(
            plain.clone(),
            json!({"ID": "E", "B": {"y": [true, null], "x": 1.0}, "A": 1e0})
        ));
        assert!(same(
            plain.clone(),
            json!({"ID": "E", "A": 1, "B": {"x": 1, "y": [true, null]}, "RequestId": "r-2"})
        ));
        for other in [
            json!({"ID": "E", "A": 2, "B": {"x": 1, "y": [true, null]}}),
            json!({"ID": "E", "A": "1", "B": {"x": 1, "y": [true, null]}}),
            json!({"ID": "E", "A": 1, "B": {"x": 1, "y": [null, true]}}),
            json!({"ID": "E", "A": 1, "B": {"x": 1, "y": [true], "z": null}}),
            json!({"ID": "E", "A": 1, "B": null}),
            json!({"ID": "E", "A": 1}),
            json!({"ID": "E", "A": 1, "B": {"x": 1, "y": [true, null]}, "Deleted": true}),
            json!({"ID": "E", "A": 1, "B": {"x": 1, "y": [true, null]}, "ExpectedVersion": 0}),
        ] {
            assert!(!same(plain.clone(), other.clone()), "{other}");
        }
        // What runs together when written one after the other.
        assert!(!same(
            json!({"ID": "E", "A": ["b", "c"]}),
            json!({"ID": "E", "A": ["bc"]})
        ));
        assert!(!same(
            json!({"ID": "E", "A": [["b"], "c"]}),
            json!({"ID": "E", "A": [["b", "c"]]})
        ));
    }

    #[test]
    fn a_marker_is_read_back() {
        let update = update(json!({"ID": "E", "A": 1}));
        let marker = Marker {
            version: Version::new(7).unwrap(),
            payload: update.payload(),
        };
        let item = marker.item(&update, 99);
        assert_eq!(item[names::SK], AttributeValue::S("request#r-1".to_owned()));
        assert_eq!(Marker::from_item(&item), Some(marker));
        assert_eq!(
            Marker::from_item(&Item::from(HashMap::<_, AttributeValue>::new())),
            None
        );
    }

    #[test]
    fn markers_are_kept_for_days() {
        let seconds = |text: &str| text.parse::<Retention>().ok().map(|kept| kept.duration().as_secs());
        assert_eq!(seconds("8"), Some(691_200));
        assert_eq!(Retention::default().duration().as_secs(), 691_200);
        for refused in ["0", "3651", "-1", "1.5", ""] {
            assert_eq!(seconds(refused), None, "{refused}");
        }
    }
}
