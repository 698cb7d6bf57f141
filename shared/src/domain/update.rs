//! An update: what upstream wants of an entity.

use std::{collections::BTreeMap, str::FromStr};

use serde_json::{Map, Value};
use thiserror::Error;

use super::{
    AttributeValue, attributes,
    entity::{EntityId, InvalidEntityId},
    ledger::Payload,
    names,
    number::{Decimal, InvalidNumber},
    request_id::{InvalidRequestId, RequestId},
    size::{self, OverLimit},
    time::{EpochMillis, InvalidTime},
    version::Version,
};

/// The member of an update that names the entity.
pub const ID: &str = "ID";
/// The member of an update that names the version it expects.
pub const EXPECTED_VERSION: &str = "ExpectedVersion";
/// Attributes that no update may set: keys, the counter, the memory of requests, and the marks of deletion and of what is
/// kept from it.
pub const RESERVED: [&str; 6] = [
    names::PK,
    names::SK,
    names::LATEST,
    names::RECENT_REQUESTS,
    names::TTL,
    names::PINNED,
];
/// The most attributes of one update: an update expression has at most 300 operators and functions (DynamoDB's
/// limits for expressions), and the version's own take a few.
pub const MAX_ATTRIBUTES: usize = 290;
/// What DynamoDB adds to the name and value of an attribute that an update sets, against the size of an item (measured on
/// it by others; the embedded one does the same).
const SET_BYTES: usize = 19;
/// The same for the name of one that it takes away.
const REMOVE_BYTES: usize = 1;

/// An update of one entity, checked: all that is left to go wrong is DynamoDB's to say.
#[derive(Clone, PartialEq)]
pub struct Update {
    /// Whose update it is.
    pub entity: EntityId,
    /// What makes a second delivery of it a duplicate.
    pub request_id: RequestId,
    /// The version that must be the latest, where upstream said one.
    pub expected: Option<ExpectedVersion>,
    /// Whether the version it makes is a tombstone.
    pub deleted: bool,
    /// Its time, where updates are ordered by time.
    pub timestamp: Option<EpochMillis>,
    /// The attributes it names, besides those that have a field here.
    pub changes: BTreeMap<String, Change>,
    /// What was asked, where the changes were worked out from it and may differ the next time.
    pub asked: Option<Payload>,
}

/// What an update does to one attribute.
#[derive(Clone, PartialEq)]
pub enum Change {
    /// Gives it a value.
    Set(AttributeValue),
    /// Takes it away.
    Remove,
}

/// The state that an update expects to meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExpectedVersion {
    /// There is no latest item yet, written 0.
    Absent,
    /// The latest item is of this version.
    Is(Version),
}

impl ExpectedVersion {
    /// 0 for [`Self::Absent`].
    pub fn number(self) -> u64 {
        match self {
            Self::Absent => 0,
            Self::Is(version) => version.get(),
        }
    }
}

/// What decides between two updates of one entity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ordering {
    /// The later to arrive wins.
    #[default]
    Arrival,
    /// An update older than what is stored is [stale](crate::dynamodb::write::WriteOutcome::Stale).
    Time,
}

impl FromStr for Ordering {
    type Err = InvalidOrdering;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "arrival" => Ok(Self::Arrival),
            "time" => Ok(Self::Time),
            _ => Err(InvalidOrdering),
        }
    }
}

/// Neither `arrival` nor `time`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the ordering is \"arrival\" or \"time\"")]
pub struct InvalidOrdering;

impl Update {
    /// Reads an update from its JSON.
    ///
    /// `default_request_id` is the id of what carried the update, used where it has no `RequestId` of its own.
    ///
    /// ```
    /// use shared::domain::update::{Ordering, Update};
    ///
    /// let json = serde_json::from_str(r#"{"ID": "Equipment#1", "State": "WARNING1"}"#).unwrap();
    /// let update = Update::parse(json, "message-1", Ordering::Arrival).unwrap();
    /// assert_eq!(update.entity.as_str(), "Equipment#1");
    /// assert_eq!(update.request_id.as_str(), "message-1");
    /// assert!(update.changes.contains_key("State"));
    /// ```
    pub fn parse(json: Value, default_request_id: &str, ordering: Ordering) -> Result<Self, InvalidUpdate> {
        let Value::Object(mut members) = json else {
            return Err(InvalidUpdate::NotAnObject);
        };
        if let Some(name) = RESERVED.into_iter().find(|name| members.contains_key(*name)) {
            return Err(InvalidUpdate::Reserved { name });
        }
        let entity = match members.remove(ID) {
            Some(Value::String(id)) => EntityId::new(id)?,
            Some(_) => return Err(InvalidUpdate::IdIsNoString),
            None => return Err(InvalidUpdate::NoId),
        };
        let update = Self {
            entity,
            request_id: request_id(&mut members, default_request_id)?,
            expected: expected_version(&mut members)?,
            deleted: deleted(&mut members)?,
            timestamp: match ordering {
                Ordering::Arrival => None,
                Ordering::Time => Some(take_timestamp(&mut members)?),
            },
            changes: changes(members)?,
            asked: None,
        };
        update.check()?;
        Ok(update)
    }

    /// Refuses what can never be stored, whatever is stored already: names and values that DynamoDB does not hold, and
    /// attributes that alone make a version item that is too large.
    ///
    /// What is stored already is DynamoDB's to add up, or the transaction's, which reads it.
    pub fn check(&self) -> Result<(), InvalidUpdate> {
        if self.changes.len() > MAX_ATTRIBUTES {
            let count = self.changes.len();
            return Err(InvalidUpdate::TooManyAttributes { count });
        }
        // The least that the version item has besides: its keys, and the request.
        let mut stored = names::PK.len() + self.entity.as_str().len() + names::SK.len() + "v1".len();
        stored += names::REQUEST_ID.len() + self.request_id.as_str().len();
        // What DynamoDB holds against the update itself, before it looks at what is stored.
        let mut sent = SET_BYTES + names::REQUEST_ID.len() + self.request_id.as_str().len();
        for (name, change) in &self.changes {
            let checked = match change {
                Change::Set(value) => {
                    let bytes = name.len() + size::of_value(value);
                    stored += bytes;
                    sent += SET_BYTES + bytes;
                    size::check_attribute(name, value)
                }
                Change::Remove => {
                    sent += REMOVE_BYTES + name.len();
                    size::check_name(name)
                }
            };
            checked.map_err(|source| match source {
                OverLimit::EmptyName if name.is_empty() => InvalidUpdate::EmptyName,
                OverLimit::Name { bytes } if bytes == name.len() => InvalidUpdate::LongName { bytes },
                source => InvalidUpdate::Attribute {
                    name: name.clone(),
                    source,
                },
            })?;
        }
        size::check_version_bytes(stored)?;
        if sent > size::MAX_ITEM_BYTES {
            return Err(InvalidUpdate::TooManyBytes { bytes: sent });
        }
        Ok(())
    }
}

fn request_id(members: &mut Map<String, Value>, default: &str) -> Result<RequestId, InvalidUpdate> {
    match members.remove(names::REQUEST_ID) {
        Some(Value::String(id)) => Ok(RequestId::new(id)?),
        Some(Value::Null) | None => Ok(RequestId::new(default)?),
        Some(_) => Err(InvalidUpdate::RequestIdIsNoString),
    }
}

fn expected_version(members: &mut Map<String, Value>) -> Result<Option<ExpectedVersion>, InvalidUpdate> {
    match members.remove(EXPECTED_VERSION) {
        Some(Value::Number(number)) => {
            let number = Decimal::parse(&number.to_string()).ok().and_then(|n| n.to_u64());
            let number = number.ok_or(InvalidUpdate::ExpectedVersion)?;
            Ok(Some(
                Version::new(number).map_or(ExpectedVersion::Absent, ExpectedVersion::Is),
            ))
        }
        Some(Value::Null) | None => Ok(None),
        Some(_) => Err(InvalidUpdate::ExpectedVersion),
    }
}

fn deleted(members: &mut Map<String, Value>) -> Result<bool, InvalidUpdate> {
    match members.remove(names::DELETED) {
        Some(Value::Bool(deleted)) => Ok(deleted),
        Some(Value::Null) | None => Ok(false),
        Some(_) => Err(InvalidUpdate::DeletedIsNoBool),
    }
}

/// The time that orders an update. `Time` stays among the attributes, `Timestamp` becomes a field of the update.
fn take_timestamp(members: &mut Map<String, Value>) -> Result<EpochMillis, InvalidUpdate> {
    let time = match members.get(names::TIME) {
        Some(Value::String(text)) => Some(EpochMillis::parse_iso(text)?),
        Some(Value::Null) | None => None,
        Some(_) => return Err(InvalidUpdate::Time(InvalidTime)),
    };
    let timestamp = match members.remove(names::TIMESTAMP) {
        Some(Value::Number(number)) => {
            let millis = Decimal::parse(&number.to_string()).ok().and_then(|n| n.to_i64());
            Some(EpochMillis::new(millis.ok_or(InvalidUpdate::Timestamp)?))
        }
        Some(Value::Null) | None => None,
        Some(_) => return Err(InvalidUpdate::Timestamp),
    };
    match (time, timestamp) {
        (Some(time), Some(timestamp)) if time != timestamp => Err(InvalidUpdate::TimesDisagree),
        (Some(time), _) | (None, Some(time)) => Ok(time),
        (None, None) => Err(InvalidUpdate::NoTime),
    }
}

fn changes(members: Map<String, Value>) -> Result<BTreeMap<String, Change>, InvalidUpdate> {
    let change = |(name, value): (String, Value)| {
        let change = match value {
            Value::Null => Change::Remove,
            value => match attributes::from_json(value) {
                Ok(value) => Change::Set(value),
                Err(source) => return Err(InvalidUpdate::Number { name, source }),
            },
        };
        Ok((name, change))
    };
    members.into_iter().map(change).collect()
}

/// Why a JSON value is not an update. No variant tells a value.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum InvalidUpdate {
    /// A list, a text, a number: anything but an object.
    #[error("the update is not a JSON object")]
    NotAnObject,
    /// No member [`ID`].
    #[error("ID is missing")]
    NoId,
    /// [`ID`] is of another type.
    #[error("ID is not a string")]
    IdIsNoString,
    /// [`ID`] is a string that is no partition key.
    #[error("ID is not a partition key")]
    Id(#[from] InvalidEntityId),
    /// One of [`RESERVED`].
    #[error("{name} is reserved")]
    Reserved {
        /// Which.
        name: &'static str,
    },
    /// `RequestId` is of another type.
    #[error("RequestId is not a string")]
    RequestIdIsNoString,
    /// `RequestId`, or the id that stands in for it, has a wrong length.
    #[error(transparent)]
    RequestId(#[from] InvalidRequestId),
    /// [`EXPECTED_VERSION`] is not a whole number from 0.
    #[error("ExpectedVersion is not a whole number from 0")]
    ExpectedVersion,
    /// `Deleted` is of another type.
    #[error("Deleted is not true or false")]
    DeletedIsNoBool,
    /// Updates are ordered by time, and this one has none.
    #[error("Time is missing, and updates are ordered by time")]
    NoTime,
    /// Updates are ordered by time, and `Time` cannot be read.
    #[error("Time orders updates, and cannot be read")]
    Time(#[from] InvalidTime),
    /// Updates are ordered by time, and `Timestamp` is not a whole number of milliseconds.
    #[error("Timestamp is not a whole number of epoch milliseconds")]
    Timestamp,
    /// Updates are ordered by time, and this one has two.
    #[error("Time and Timestamp are different times")]
    TimesDisagree,
    /// DynamoDB has no attributes without a name.
    #[error("an attribute has no name")]
    EmptyName,
    /// A number that DynamoDB does not hold exactly.
    #[error("the number in {name} cannot be stored")]
    Number {
        /// The attribute it is in.
        name: String,
        /// What is wrong with it.
        source: InvalidNumber,
    },
    /// A name longer than [`size::MAX_NAME_BYTES`]. It is not told: it is as long as it is.
    #[error("the name of an attribute has {bytes} bytes, and {max} are allowed", max = size::MAX_NAME_BYTES)]
    LongName {
        /// Its length.
        bytes: usize,
    },
    /// A value that DynamoDB does not hold.
    #[error("the value of {name} cannot be stored")]
    Attribute {
        /// The attribute.
        name: String,
        /// What is wrong with it.
        source: OverLimit,
    },
    /// Its attributes alone make an item that is too large.
    #[error(transparent)]
    TooLarge(#[from] OverLimit),
    /// More than an item holds, counting what it takes away as well.
    #[error("the update has {bytes} bytes, and {max} are allowed", max = size::MAX_ITEM_BYTES)]
    TooManyBytes {
        /// How many it has.
        bytes: usize,
    },
    /// More than [`MAX_ATTRIBUTES`].
    #[error("the update has {count} attributes, and {MAX_ATTRIBUTES} are allowed")]
    TooManyAttributes {
        /// How many it has.
        count: usize,
    },
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::logging::chain;

    fn parse(json: Value) -> Result<Update, InvalidUpdate> {
        Update::parse(json, "default", Ordering::Arrival)
    }

    fn timestamp(json: &str) -> Result<i64, InvalidUpdate> {
        let update = Update::parse(serde_json::from_str(json).unwrap(), "default", Ordering::Time)?;
        assert!(!update.changes.contains_key(names::TIMESTAMP));
        Ok(update.timestamp.unwrap().get())
    }

    #[test]
    fn every_member_has_its_meaning() {
        let update = parse(json!({
            "ID": "Equipment#1", "RequestId": "r1", "ExpectedVersion": 3, "Deleted": true,
            "Time": "2020-11-01T20:04:00", "State": "WARNING1", "Old": null, "Nested": {"a": [1, null]},
        }))
        .unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(update.entity.as_str(), "Equipment#1");
        assert_eq!(update.request_id.as_str(), "r1");
        assert_eq!(update.expected.map(ExpectedVersion::number), Some(3));
        assert!(update.deleted);
        assert!(update.timestamp.is_none());
        let names: Vec<_> = update.changes.keys().map(String::as_str).collect();
        assert_eq!(names, ["Nested", "Old", "State", "Time"]);
        assert!(update.changes["Old"] == Change::Remove);
        let nested = serde_json::from_value(json!({"M": {"a": {"L": [{"N": "1"}, {"NULL": true}]}}})).unwrap();
        assert!(update.changes["Nested"] == Change::Set(nested));
    }

    #[test]
    fn what_an_update_leaves_out_has_a_default() {
        let update = parse(json!({"ID": "E", "RequestId": null, "ExpectedVersion": null, "Deleted": null})).unwrap();
        assert_eq!(update.request_id.as_str(), "default");
        assert_eq!(update.expected, None);
        assert!(!update.deleted);
        assert!(update.changes.is_empty());
        let zero = parse(json!({"ID": "E", "ExpectedVersion": 0})).unwrap();
        assert_eq!(zero.expected, Some(ExpectedVersion::Absent));
    }

    #[test]
    fn what_is_refused_and_why() {
        let too_many: Map<_, _> = (0..=290)
            .map(|n| (format!("A{n}"), json!(1)))
            .chain([("ID".into(), json!("E"))])
            .collect();
        for (json, message) in [
            (json!([1]), "the update is not a JSON object"),
            (json!("text"), "the update is not a JSON object"),
            (json!({}), "ID is missing"),
            (json!({"ID": 7}), "ID is not a string"),
            (json!({"ID": null}), "ID is not a string"),
            (
                json!({"ID": ""}),
                "ID is not a partition key: the partition key is empty",
            ),
            (json!({"ID": "E", "PK": "x"}), "PK is reserved"),
            (json!({"ID": "E", "SK": "x"}), "SK is reserved"),
            (json!({"ID": "E", "Latest": 5}), "Latest is reserved"),
            (json!({"ID": "E", "TTL": null}), "TTL is reserved"),
            (json!({"ID": "E", "RecentRequests": {}}), "RecentRequests is reserved"),
            (json!({"ID": "E", "RequestId": 7}), "RequestId is not a string"),
            (
                json!({"ID": "E", "RequestId": ""}),
                "RequestId has 0 bytes, and 1 to 1000 are allowed",
            ),
            (
                json!({"ID": "E", "ExpectedVersion": -1}),
                "ExpectedVersion is not a whole number from 0",
            ),
            (
                json!({"ID": "E", "ExpectedVersion": 1.5}),
                "ExpectedVersion is not a whole number from 0",
            ),
            (
                json!({"ID": "E", "ExpectedVersion": "1"}),
                "ExpectedVersion is not a whole number from 0",
            ),
            (json!({"ID": "E", "Deleted": "yes"}), "Deleted is not true or false"),
            (json!({"ID": "E", "": 1}), "an attribute has no name"),
            (
                Value::Object(too_many),
                "the update has 291 attributes, and 290 are allowed",
            ),
        ] {
            assert_eq!(chain(&parse(json.clone()).err().unwrap()), message, "{json}");
        }
        let nested = |levels: usize, innermost: &str| {
            let text = format!("{}{innermost}{}", "[".repeat(levels), "]".repeat(levels));
            parse(serde_json::from_str(&format!(r#"{{"ID": "E", "A": {text}}}"#)).unwrap())
        };
        let too_deep = "the value of A cannot be stored: its lists and maps are deeper than 32 levels";
        assert!(nested(31, "7").is_ok() && nested(31, r#""x""#).is_ok() && nested(31, "").is_ok());
        for (levels, innermost) in [
            (32, "7"),
            (32, ""),
            (31, "[]"),
            (31, "{}"),
            (31, r#"{"a": 1}"#),
            (100, ""),
        ] {
            assert_eq!(
                chain(&nested(levels, innermost).err().unwrap()),
                too_deep,
                "{levels} {innermost}"
            );
        }
        let named =
            |name: String, value: Value| parse(json!({"ID": "E", name: value})).err().map(|error| chain(&error));
        let long = "x".repeat(65_536);
        assert_eq!(named("x".repeat(65_535), json!(1)), None);
        let too_long = "the name of an attribute has 65536 bytes, and 65535 are allowed";
        assert_eq!(named(long.clone(), json!(1)).unwrap(), too_long);
        assert_eq!(named(long.clone(), json!(null)).unwrap(), too_long);
        assert_eq!(
            named("A".to_owned(), json!([{"a": 1, long: 1}])).unwrap(),
            "the value of A cannot be stored: a name has 65536 bytes, and 65535 are allowed"
        );
        assert_eq!(
            named("A".to_owned(), json!({"": 1})).unwrap(),
            "the value of A cannot be stored: a name is empty"
        );
        let zeros = format!(r#"{{"ID": "E", "A": 1.{}}}"#, "0".repeat(1000));
        assert_eq!(
            chain(&parse(serde_json::from_str(&zeros).unwrap()).err().unwrap()),
            "the number in A cannot be stored: it is written in 1002 bytes, and 1000 are allowed"
        );
        let removed: Map<_, _> = (0..40)
            .map(|n| (format!("{n}{}", "x".repeat(60_000)), Value::Null))
            .chain([("ID".into(), json!("E"))])
            .collect();
        assert!(matches!(
            parse(Value::Object(removed)).err().unwrap(),
            InvalidUpdate::TooManyBytes { bytes: 2_400_130.. }
        ));
        let long = r#"{"ID": "E", "A": {"b": [123456789012345678901234567890123456789]}}"#;
        assert_eq!(
            chain(&parse(serde_json::from_str(long).unwrap()).err().unwrap()),
            "the number in A cannot be stored: it has 39 significant digits, and 38 are allowed"
        );
    }

    #[test]
    fn what_alone_makes_too_large_an_item_is_refused() {
        let id = "E".repeat(100);
        // PK, SK, RequestId and A, with the marks that the version item may get.
        let others = "PK".len() + 100 + "SKv1".len() + "RequestIddefault".len() + "A".len() + size::MARKS_BYTES;
        let most = size::MAX_ITEM_BYTES - others;
        assert!(parse(json!({"ID": id, "A": "x".repeat(most)})).is_ok());
        assert_eq!(
            chain(&parse(json!({"ID": id, "A": "x".repeat(most + 1)})).err().unwrap()),
            "the version item would have 409601 bytes, and 409600 are allowed"
        );
        // With a short key, what DynamoDB adds for the update itself is more.
        let most = size::MAX_ITEM_BYTES - 2 * SET_BYTES - "RequestIddefault".len() - "A".len();
        assert!(parse(json!({"ID": "E", "A": "x".repeat(most)})).is_ok());
        assert_eq!(
            chain(&parse(json!({"ID": "E", "A": "x".repeat(most + 1)})).err().unwrap()),
            "the update has 409601 bytes, and 409600 are allowed"
        );
        // What is taken away is not stored.
        let removed = (0..6).map(|n| (format!("{n}{}", "x".repeat(60_000)), Value::Null));
        assert!(parse(Value::Object(removed.chain([("ID".into(), json!("E"))]).collect())).is_ok());
    }

    #[test]
    fn the_time_that_orders_updates() {
        assert_eq!(
            timestamp(r#"{"ID":"E","Time":"2020-11-01T20:04:00"}"#),
            Ok(1_604_261_040_000)
        );
        assert_eq!(
            timestamp(r#"{"ID":"E","Timestamp":1721769060000}"#),
            Ok(1_721_769_060_000)
        );
        assert_eq!(
            timestamp(r#"{"ID":"E","Time":"2020-11-01T20:04:00Z","Timestamp":1604261040000}"#),
            Ok(1_604_261_040_000)
        );
        for (json, why) in [
            (r#"{"ID":"E"}"#, InvalidUpdate::NoTime),
            (r#"{"ID":"E","Time":null}"#, InvalidUpdate::NoTime),
            (r#"{"ID":"E","Time":"now"}"#, InvalidUpdate::Time(InvalidTime)),
            (r#"{"ID":"E","Time":5}"#, InvalidUpdate::Time(InvalidTime)),
            (r#"{"ID":"E","Timestamp":"5"}"#, InvalidUpdate::Timestamp),
            (r#"{"ID":"E","Timestamp":5.5}"#, InvalidUpdate::Timestamp),
            (
                r#"{"ID":"E","Time":"2020-11-01T20:04:00","Timestamp":5}"#,
                InvalidUpdate::TimesDisagree,
            ),
        ] {
            assert_eq!(timestamp(json), Err(why), "{json}");
        }
    }

    #[test]
    fn in_order_of_arrival_a_timestamp_is_an_attribute_like_any_other() {
        let update = parse(json!({"ID": "E", "Timestamp": "whenever"})).unwrap();
        assert!(update.changes.contains_key(names::TIMESTAMP));
    }

    proptest! {
        #[test]
        fn any_json_is_read_or_refused(text in "\\PC{0,40}", id in ".{0,10}") {
            if let Ok(json) = serde_json::from_str(&text) {
                let _ = parse(json);
            }
            let _ = Update::parse(json!({"ID": id, "Time": text, "Timestamp": text}), &id, Ordering::Time);
        }
    }
}
