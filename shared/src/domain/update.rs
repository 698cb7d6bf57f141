//! An update: what upstream wants of an entity.

use std::{collections::BTreeMap, str::FromStr};

use serde_json::{Map, Value};
use thiserror::Error;

use super::{
    AttributeValue, attributes,
    entity::{EntityId, InvalidEntityId},
    names,
    number::{Decimal, InvalidNumber},
    payload::{Payload, PayloadText},
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

    /// Returns the hash that distinguishes this update from others with the same request id. If the changes were computed
    /// from a request, it is the hash of that request.
    pub fn payload(&self) -> Payload {
        if let Some(asked) = &self.asked {
            return asked.clone();
        }
        let mut text = PayloadText::default();
        text.part(&format!("{:?}", self.expected.map(ExpectedVersion::number)));
        text.part(&format!("{:?}", self.timestamp.map(EpochMillis::get)));
        text.part(&self.deleted.to_string());
        add_changes(&mut text, &self.changes);
        text.hash()
    }

    /// Returns the hash of a restore: the version to restore and the changes that come with it.
    pub fn restore_payload(version: Version, changes: &BTreeMap<String, Change>) -> Payload {
        let mut text = PayloadText::default();
        text.part("restore");
        text.part(&version.to_string());
        add_changes(&mut text, changes);
        text.hash()
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

fn add_changes(text: &mut PayloadText, changes: &BTreeMap<String, Change>) {
    for (name, change) in changes {
        text.part(name);
        match change {
            Change::Set(value) => text.value(value),
            Change::Remove => text.part("-"),
        }
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
mod tests;
