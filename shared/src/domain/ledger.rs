//! Ledger: a marker item for every request, kept longer than any service redelivers a request. It detects duplicates of
//! any age, where the recent requests of the latest item detect only the last ones.

use std::{collections::HashMap, fmt, str::FromStr, time::Duration};

use thiserror::Error;

use super::{
    AttributeValue, Item, names, number::Decimal, payload::Payload, request_id::RequestId, update::Update,
    version::Version,
};

/// Prefix of a marker's sort key.
pub const PREFIX: &str = "request#";
/// Attribute of a marker: the version that its request created.
pub const VERSION: &str = "Version";
/// Attribute of a marker: the hash of the update.
pub const PAYLOAD: &str = "Payload";

/// Retention of markers, in days.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention(u16);

impl Retention {
    /// Returns `None` outside 1 day to 10 years.
    pub fn days(days: u16) -> Option<Self> {
        (1..=3650).contains(&days).then_some(Self(days))
    }

    /// Returns the retention as a duration.
    pub fn duration(self) -> Duration {
        Duration::from_secs(u64::from(self.0) * 86_400)
    }
}

impl Default for Retention {
    /// Returns 15 days: longer than the
    /// [maximum retention](https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html)
    /// of a queue, 14 days.
    fn default() -> Self {
        Self(15)
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

/// The text is not a number from 1 to 3650.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("markers are kept for 1 to 3650 days")]
pub struct InvalidRetention;

/// Returns the sort key of a request's marker.
pub fn sort_key(request: &RequestId) -> String {
    format!("{PREFIX}{}", request.as_str())
}

/// Content of a marker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marker {
    /// Version that the request created.
    pub version: Version,
    /// Hash of the update.
    pub payload: Payload,
}

impl Marker {
    /// Returns the marker's item. `expires` is in epoch seconds.
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

    /// Reads a marker, `None` if the item is not a marker.
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
    fn equal_updates_have_equal_payloads_and_different_ones_do_not() {
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
        // Values that are equal when they are concatenated.
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
    fn a_marker_round_trips() {
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
    fn retention_is_in_days() {
        let seconds = |text: &str| text.parse::<Retention>().ok().map(|kept| kept.duration().as_secs());
        assert_eq!(seconds("8"), Some(691_200));
        assert_eq!(Retention::default().duration().as_secs(), 1_296_000);
        for invalid in ["0", "3651", "-1", "1.5", ""] {
            assert_eq!(seconds(invalid), None, "{invalid}");
        }
    }
}
