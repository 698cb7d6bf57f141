//! Updates: a request to change attributes of one entity, parsed from JSON and checked.

mod invalid_update;
pub mod nested;
pub mod payload;
pub mod sent_at;

use std::collections::{BTreeMap, HashMap};

use serde_json::{Map, Value};
use shared::{
    config::Ordering,
    domain::{
        AttributeValue, attributes, attribution,
        change::Change,
        entity::EntityId,
        incarnation::Incarnation,
        names,
        number::Decimal,
        plain::{self, InvalidPlain},
        request_id::RequestId,
        size::{self, OverLimit},
        time::{EpochMillis, InvalidTime},
        version::Version,
    },
};

use crate::update::{
    payload::{Payload, PayloadText, SHORT},
    sent_at::SentAt,
};

pub use invalid_update::InvalidUpdate;

/// Member of an update: the entity.
pub const ID: &str = "ID";
/// Member of an update: the expected latest version.
pub const EXPECTED_VERSION: &str = "ExpectedVersion";
/// Member of an update: the earliest time at which it can have been sent before, ISO 8601 or epoch milliseconds.
pub const REQUEST_SENT_AT: &str = "RequestSentAt";
/// Member of an update: `true` if its values can have the forms of [plain] JSON, such as `{"$number": "1.5"}`.
pub const TYPED_VALUES: &str = "TypedValues";
/// Attributes that no update may set: keys, the counter, the record of the version, recent requests, and the
/// [marks](shared::domain::marks).
pub const RESERVED: [&str; 20] = [
    names::PK,
    names::SK,
    names::LATEST,
    names::INCARNATION,
    names::RECORDED_AT,
    names::RECORDED_BY,
    names::RECORDED_SINCE,
    names::RECORDED_VERSION,
    names::RECORDED_TICK,
    names::REQUEST_PAYLOAD,
    names::SENDER,
    names::RESTORED_FROM,
    names::RECENT_REQUESTS,
    names::REQUESTS_SINCE,
    names::REQUESTS_DROPPED,
    names::REQUESTS_AHEAD,
    names::TTL,
    names::TOMBSTONE_STATE,
    names::TOMBSTONE_STAGED,
    names::PINNED,
];
/// Maximum number of attributes of one update. In an [update of a map](nested), a member counts as the names of its path, and the
/// map counts too. An update expression has at most 300 operators and functions, see
/// [Constraints](https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Constraints.html), and the bookkeeping
/// attributes use some of them.
pub const MAX_ATTRIBUTES: usize = 275;
/// Bytes that DynamoDB adds to the name and value of each attribute that an update sets, when it checks the size of the
/// update (measured).
const SET_BYTES: usize = 19;
/// Bytes that DynamoDB adds to the name of each attribute that an update removes.
const REMOVE_BYTES: usize = 1;

/// Size of `RecordedAt`, `RequestPayload` and `V0Id`, with their names.
const RECORD_BYTES: usize = names::RECORDED_AT.len()
    + 30
    + names::REQUEST_PAYLOAD.len()
    + SHORT
    + names::INCARNATION.len()
    + Incarnation::BYTES;

/// Update of one entity. Every rule that does not depend on stored data has been checked.
#[derive(Clone, PartialEq)]
pub struct Update {
    /// Entity to update.
    pub entity: EntityId,
    /// Idempotency key.
    pub request_id: RequestId,
    /// Version that must be the latest, if the client names one.
    pub expected: Option<ExpectedVersion>,
    /// `true` if the new version is a tombstone.
    pub deleted: bool,
    /// Time of the update, if updates are ordered by time.
    pub timestamp: Option<EpochMillis>,
    /// Changes of attributes.
    pub changes: BTreeMap<String, Change>,
    /// Hash of the original request, if the changes were computed from it and can differ on the next delivery.
    pub request_payload: Option<Payload>,
    /// Time at which the update was sent. `None` if it is sent for the first time.
    pub sent_at: Option<SentAt>,
    /// Sender that the platform reports.
    pub sender: Option<String>,
    /// Version whose attributes the update restores.
    pub restored_from: Option<Version>,
}

/// Latest version that an update expects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExpectedVersion {
    /// There is no latest item; 0 in JSON.
    Absent,
    /// The latest item has this version.
    Is(Version),
}

impl ExpectedVersion {
    /// Returns the number, 0 for [`Self::Absent`].
    pub fn number(self) -> u64 {
        match self {
            Self::Absent => 0,
            Self::Is(version) => version.get(),
        }
    }
}

impl Update {
    /// Parses an update. `default_request_id`, the id of the message or invocation, is used if the update has no
    /// `RequestId`.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidUpdate`] if the JSON is not an update, or one that can never be stored.
    ///
    /// ```
    /// use shared::config::Ordering;
    /// use writer_fn::update::Update;
    ///
    /// let json = shared::json::parse(r#"{"ID": "Equipment#1", "State": "WARNING1"}"#).unwrap();
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
        let time = time_of(&members)?;
        let timestamp = match ordering {
            Ordering::Arrival => None,
            // `Time` stays an attribute.
            Ordering::Time => {
                members.remove(names::TIMESTAMP);
                Some(time.ok_or(InvalidUpdate::NoTime)?)
            }
        };
        let update = Self {
            entity,
            request_id: request_id(&mut members, default_request_id)?,
            expected: expected_version(&mut members)?,
            deleted: flag(&mut members, names::DELETED).ok_or(InvalidUpdate::DeletedIsNoBool)?,
            timestamp,
            sent_at: sent_at(&mut members)?.map(SentAt::since),
            changes: changes(members)?,
            request_payload: None,
            sender: None,
            restored_from: None,
        };
        update.check()?;
        Ok(update)
    }

    /// Returns the hash that distinguishes this update from others with the same request id. If the changes were computed
    /// from a request, it is the hash of that request.
    pub fn payload(&self) -> Payload {
        if let Some(request_payload) = &self.request_payload {
            return request_payload.clone();
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

    /// Returns the hash of an undelete: the changes that come with it. The version to restore follows from history.
    pub fn undelete_payload(changes: &BTreeMap<String, Change>) -> Payload {
        let mut text = PayloadText::default();
        text.part("undelete");
        add_changes(&mut text, changes);
        text.hash()
    }

    /// Returns the attributes of state that the update sets.
    pub fn new_state(&self) -> impl Iterator<Item = (&String, &AttributeValue)> {
        self.changes.iter().filter_map(|(name, change)| match change {
            Change::Set(value) if attribution::is_state(name) => Some((name, value)),
            _ => None,
        })
    }

    /// Returns `true` if it sets more attributes than one request can. Such an update is not parsed but computed from history.
    pub fn is_wide(&self) -> bool {
        self.changes.len() > MAX_ATTRIBUTES && self.new_state().count() > MAX_ATTRIBUTES
    }

    /// Checks the rules that do not depend on stored data: names and values that DynamoDB can store, and a size that fits a
    /// version item. DynamoDB, or a transaction, checks the size together with the stored attributes.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidUpdate`] with the rule that is violated.
    pub fn check(&self) -> Result<(), InvalidUpdate> {
        let count = nested::count(&self.changes);
        if count > MAX_ATTRIBUTES {
            return Err(InvalidUpdate::TooManyAttributes { count });
        }
        // The version item also has at least its keys and the request id.
        let mut stored = names::PK.len() + self.entity.as_str().len() + names::SK.len() + "v1".len();
        let request_bytes = names::REQUEST_ID.len() + self.request_id.as_str().len();
        stored += request_bytes + RECORD_BYTES;
        // DynamoDB checks the size of the update before that of the item.
        let mut sent = 4 * SET_BYTES + request_bytes + RECORD_BYTES;
        if let Some(sender) = &self.sender {
            let bytes = names::SENDER.len() + sender.len();
            stored += bytes;
            sent += SET_BYTES + bytes;
        }
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
                Change::Update(members) => {
                    nested::check(name, members)?;
                    let value = nested::new_members(members);
                    let bytes = name.len() + size::of_value(&value);
                    stored += bytes;
                    sent += SET_BYTES * nested::count(members) + bytes + nested::removed_bytes(members);
                    size::check_attribute(name, &value)
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
        if self.deleted {
            // The latest item has the state of a tombstone in a map.
            let state = self.new_state().map(|(name, value)| (name.clone(), value.clone()));
            let state: HashMap<_, _> = state.collect();
            sent += names::TOMBSTONE_STATE.len() + 3 + state.len();
            size::check_attribute(names::TOMBSTONE_STATE, &AttributeValue::M(state)).map_err(|source| {
                InvalidUpdate::Attribute {
                    name: names::TOMBSTONE_STATE.to_owned(),
                    source,
                }
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
            Change::Update(members) => {
                text.part("update");
                text.count(members.len());
                add_changes(text, members);
            }
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

/// Removes a member that is `false` by default. `None` if it is neither `true` nor `false`.
fn flag(members: &mut Map<String, Value>, name: &str) -> Option<bool> {
    match members.remove(name) {
        Some(Value::Bool(flag)) => Some(flag),
        Some(Value::Null) | None => Some(false),
        Some(_) => None,
    }
}

/// Returns the time that the client gives to an update, in `Time`, in `Timestamp`, or in both.
fn time_of(members: &Map<String, Value>) -> Result<Option<EpochMillis>, InvalidUpdate> {
    let time = match members.get(names::TIME) {
        Some(Value::String(text)) => Some(EpochMillis::parse_iso(text)?),
        Some(Value::Null) | None => None,
        Some(_) => return Err(InvalidUpdate::Time(InvalidTime)),
    };
    let timestamp = match members.get(names::TIMESTAMP) {
        Some(Value::Number(number)) => Some(millis(number).ok_or(InvalidUpdate::Timestamp)?),
        Some(Value::Null) | None => None,
        Some(_) => return Err(InvalidUpdate::Timestamp),
    };
    match (time, timestamp) {
        (Some(time), Some(timestamp)) if time != timestamp => Err(InvalidUpdate::TimesDisagree),
        (time, timestamp) => Ok(time.or(timestamp)),
    }
}

fn sent_at(members: &mut Map<String, Value>) -> Result<Option<EpochMillis>, InvalidUpdate> {
    match members.remove(REQUEST_SENT_AT) {
        Some(Value::String(text)) => Ok(Some(
            EpochMillis::parse_iso(&text).map_err(|_| InvalidUpdate::RequestSentAt)?,
        )),
        Some(Value::Number(number)) => Ok(Some(millis(&number).ok_or(InvalidUpdate::RequestSentAt)?)),
        Some(Value::Null) | None => Ok(None),
        Some(_) => Err(InvalidUpdate::RequestSentAt),
    }
}

fn millis(number: &serde_json::Number) -> Option<EpochMillis> {
    let millis = Decimal::parse(&number.to_string()).ok()?.to_i64()?;
    Some(EpochMillis::new(millis))
}

fn changes(mut members: Map<String, Value>) -> Result<BTreeMap<String, Change>, InvalidUpdate> {
    let is_typed = flag(&mut members, TYPED_VALUES).ok_or(InvalidUpdate::TypedValuesIsNoBool)?;
    let change = |(name, value): (String, Value)| {
        let convert = |value: Value| {
            if nested::is_in(&value, is_typed) {
                return Err(InvalidUpdate::MisplacedUpdate { name: name.clone() });
            }
            let name = || name.clone();
            match is_typed {
                true => plain::from_json(value).map_err(|source| match source {
                    InvalidPlain::Number(source) => InvalidUpdate::Number { name: name(), source },
                    source => InvalidUpdate::Typed { name: name(), source },
                }),
                false => attributes::from_json(value).map_err(|source| InvalidUpdate::Number { name: name(), source }),
            }
        };
        let change = nested::from_json(value, &convert)?;
        Ok((name, change))
    };
    members.into_iter().map(change).collect()
}

#[cfg(test)]
mod tests;
