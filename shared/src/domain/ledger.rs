//! The ledger: a marker for every request, kept longer than anything delivers again.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt,
    str::FromStr,
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use sha2::{Digest as _, Sha256};
use thiserror::Error;

use super::{
    AttributeValue, Item, names,
    number::Decimal,
    request_id::RequestId,
    time::EpochMillis,
    update::{Change, ExpectedVersion, Update},
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
            payload: Payload(payload.clone()),
        })
    }
}

/// What an update asks for, cut down to a hash: the same update has the same, however often it is delivered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payload(String);

impl Payload {
    /// Of everything that an update says but its request id: numbers by their value, sets in any order. Where an update
    /// was worked out from what somebody asked, of that.
    pub fn of(update: &Update) -> Self {
        if let Some(asked) = &update.asked {
            return asked.clone();
        }
        let mut text = Text::default();
        text.part(&format!("{:?}", update.expected.map(ExpectedVersion::number)));
        text.part(&format!("{:?}", update.timestamp.map(EpochMillis::get)));
        text.part(&update.deleted.to_string());
        text.changes(&update.changes);
        text.hash()
    }

    /// Of a restore: the version to bring back, and the changes that come with it.
    pub fn of_restore(version: Version, changes: &BTreeMap<String, Change>) -> Self {
        let mut text = Text::default();
        text.part("restore");
        text.part(&version.to_string());
        text.changes(changes);
        text.hash()
    }

    /// Its characters.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// One text for each update. Each part has its length before it, so that no two run together.
#[derive(Default)]
struct Text(String);

impl Text {
    fn part(&mut self, part: &str) {
        self.0.push_str(&part.len().to_string());
        self.0.push(':');
        self.0.push_str(part);
    }

    fn changes(&mut self, changes: &BTreeMap<String, Change>) {
        for (name, change) in changes {
            self.part(name);
            match change {
                Change::Set(value) => self.value(value),
                Change::Remove => self.part("-"),
            }
        }
    }

    fn value(&mut self, value: &AttributeValue) {
        let number = |text: &String| Decimal::parse(text).map_or_else(|_| text.clone(), |number| number.canonical());
        match value {
            AttributeValue::S(text) => self.tagged("S", [text.clone()]),
            AttributeValue::N(text) => self.tagged("N", [number(text)]),
            AttributeValue::B(bytes) => self.tagged("B", [URL_SAFE_NO_PAD.encode(bytes)]),
            AttributeValue::Bool(value) => self.tagged("BOOL", [value.to_string()]),
            AttributeValue::Null(_) => self.tagged("NULL", []),
            AttributeValue::Ss(texts) => self.tagged("SS", texts.iter().cloned().collect::<BTreeSet<_>>()),
            AttributeValue::Ns(numbers) => self.tagged("NS", numbers.iter().map(number).collect::<BTreeSet<_>>()),
            AttributeValue::Bs(values) => {
                let encoded = values.iter().map(|bytes| URL_SAFE_NO_PAD.encode(bytes));
                self.tagged("BS", encoded.collect::<BTreeSet<_>>());
            }
            AttributeValue::L(values) => {
                self.tagged("L", [values.len().to_string()]);
                for value in values {
                    self.value(value);
                }
            }
            AttributeValue::M(members) => {
                self.tagged("M", [members.len().to_string()]);
                for (name, value) in members.iter().collect::<BTreeMap<_, _>>() {
                    self.part(name);
                    self.value(value);
                }
            }
        }
    }

    fn tagged(&mut self, tag: &str, parts: impl IntoIterator<Item = String>) {
        self.part(tag);
        let parts: Vec<_> = parts.into_iter().collect();
        self.part(&parts.len().to_string());
        for part in parts {
            self.part(&part);
        }
    }

    fn hash(&self) -> Payload {
        let hash: [u8; 32] = Sha256::digest(self.0.as_bytes()).into();
        let (first, _) = hash.split_at(16);
        Payload(URL_SAFE_NO_PAD.encode(first))
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
        let same = |a: Value, b: Value| Payload::of(&update(a)) == Payload::of(&update(b));
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
            payload: Payload::of(&update),
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
