//! Attributes of a latest item that describe one version: who wrote it, why, when, and with which request.
//!
//! ```text
//! v0: State, Qty, …            state: stays until an update changes it
//!     Actor, Reason, Time, …   one version: an update that does not name them removes them
//!     RecordedVersion          the version to which they belong
//! ```
//!
//! If another program increments `Latest` and leaves these attributes alone, they still describe an older version.
//! `RecordedVersion` shows it: then they are not part of the new version. A program that writes the latest item itself and
//! names its own author removes `RecordedVersion` in the same update.

use super::{AttributeValue, Item, names, number::Decimal, recorded_at::RecordedAt, version::Version};

/// Attributes that an update names for one version.
pub const OF_CLIENT: [&str; 4] = [names::ACTOR, names::REASON, names::TIME, names::TIMESTAMP];
/// Attributes that the writer sets for one version, if they apply.
pub const OF_WRITER: [&str; 2] = [names::SENDER, names::RESTORED_FROM];
/// Attributes of the request that created a version.
pub const OF_REQUEST: [&str; 2] = [names::REQUEST_ID, names::REQUEST_PAYLOAD];
/// Attributes of latest items only.
pub const OF_LATEST: [&str; 7] = [
    names::LATEST,
    names::RECENT_REQUESTS,
    names::REQUESTS_SINCE,
    names::REQUESTS_CHECKPOINT,
    names::RECORDED_VERSION,
    names::RECORDED_TICK,
    names::TTL,
];

/// Writer of a latest item's current version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writer {
    /// This project. The attributes describe the current version.
    Own,
    /// Another program, which left the attributes of this older version unchanged.
    Stale(Version),
    /// Another program. Its attributes describe the current version.
    Other,
}

impl Writer {
    /// Returns the writer of a latest item's current version, which is `Latest`.
    pub fn of(latest: &Item, current: Version) -> Self {
        let recorded = match latest.get(names::RECORDED_VERSION) {
            Some(AttributeValue::N(number)) => Decimal::parse(number).ok().and_then(|number| number.to_u64()),
            _ => None,
        };
        match recorded.and_then(Version::new) {
            None => Self::Other,
            Some(version) if version == current => Self::Own,
            Some(version) => Self::Stale(version),
        }
    }
}

/// Returns the attributes of a latest item's current version, which is `Latest`. If another program wrote it, they have no
/// `RecordedAt`, and the second value is the time of an older version, if one is known.
pub fn of_version(mut latest: Item, current: Version) -> (Item, Option<RecordedAt>) {
    let (writer, recorded) = (Writer::of(&latest, current), RecordedAt::of_latest(&latest));
    for name in OF_LATEST {
        latest.remove(name);
    }
    latest.remove(names::RECORDED_AT);
    latest.remove(names::RECORDED_BY);
    if let Writer::Stale(_) = writer {
        for name in OF_CLIENT.into_iter().chain(OF_WRITER).chain(OF_REQUEST) {
            latest.remove(name);
        }
    }
    match (writer, recorded) {
        (Writer::Own, Some(recorded)) => {
            latest.insert(names::RECORDED_AT.to_owned(), recorded.value());
            (latest, None)
        }
        (_, recorded) => (latest, recorded),
    }
}

/// Returns the latest item whose current version is this version item.
#[must_use]
pub fn latest_from(mut version_item: Item, version: Version) -> Item {
    let recorded = RecordedAt::of(&version_item);
    let is_own = !version_item.contains_key(names::RECORDED_BY);
    version_item.remove(names::RECORDED_AT);
    version_item.remove(names::RECORDED_BY);
    if let (Some(recorded), true) = (recorded, is_own) {
        let n = |number: u64| AttributeValue::N(number.to_string());
        version_item.insert(names::RECORDED_AT.to_owned(), recorded.without_ticks().value());
        version_item.insert(names::RECORDED_VERSION.to_owned(), n(version.get()));
        if recorded.ticks() > 0 {
            version_item.insert(names::RECORDED_TICK.to_owned(), n(recorded.ticks().into()));
        }
    }
    version_item.insert(names::LATEST.to_owned(), AttributeValue::N(version.to_string()));
    version_item
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn item(json: Value) -> Item {
        serde_json::from_value(json).unwrap()
    }

    fn latest(recorded_version: Option<u64>) -> Item {
        let mut latest = json!({
            "PK": {"S": "E"}, "SK": {"S": "v0"}, "State": {"S": "x"}, "Actor": {"S": "amy"}, "Time": {"S": "2026-01-01"},
            "Sender": {"S": "AIDA"}, "RequestId": {"S": "r"}, "RequestPayload": {"S": "p"}, "Latest": {"N": "4"},
            "RecordedAt": {"S": "2026-11-22T06:24:48.123456000Z"}, "RecordedTick": {"N": "2"},
            "RequestsSince": {"N": "1"}, "RequestsCheckpoint": {"L": []}, "RecentRequests": {"M": {}},
        });
        if let Some(version) = recorded_version {
            latest["RecordedVersion"] = json!({"N": version.to_string()});
        }
        item(latest)
    }

    #[test]
    fn attributes_of_an_older_version_are_not_part_of_the_new_one() {
        let state = json!({"PK": {"S": "E"}, "SK": {"S": "v0"}, "State": {"S": "x"}});
        let mut named = state.clone();
        for (name, value) in [
            ("Actor", "amy"),
            ("Time", "2026-01-01"),
            ("Sender", "AIDA"),
            ("RequestId", "r"),
        ] {
            named[name] = json!({"S": value});
        }
        named["RequestPayload"] = json!({"S": "p"});
        let version = Version::new(4).unwrap();
        let mut own = named.clone();
        own["RecordedAt"] = json!({"S": "2026-11-22T06:24:48.123456002Z"});
        for (recorded_version, expected) in [(Some(4), own), (Some(3), state), (None, named)] {
            let (made, before) = of_version(latest(recorded_version), version);
            assert_eq!(serde_json::to_value(&made).unwrap(), expected, "{recorded_version:?}");
            assert_eq!(before.is_some(), recorded_version != Some(4));
        }
    }

    #[test]
    fn a_latest_item_from_a_version_item_is_the_same_version() {
        let version = Version::new(4).unwrap();
        let (made, _) = of_version(latest(Some(4)), version);
        let again = latest_from(made.clone(), version);
        assert_eq!(RecordedAt::of_latest(&again), RecordedAt::of(&made));
        assert_eq!(Writer::of(&again, version), Writer::Own);
        assert!(of_version(again, version).0 == made);
        // The time of a version of another program comes from its stream record.
        let mut other = made;
        other.insert(names::RECORDED_BY.to_owned(), AttributeValue::S("stream".to_owned()));
        let again = latest_from(other, version);
        assert_eq!(
            (Writer::of(&again, version), RecordedAt::of(&again)),
            (Writer::Other, None)
        );
    }
}
