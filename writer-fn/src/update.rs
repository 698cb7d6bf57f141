//! Updates: a request to change attributes of one entity, parsed from JSON and checked.

mod invalid_update;
mod limits;
mod members;
pub mod nested;
pub mod payload;
pub mod sent_at;
pub mod set;

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use shared::{
    config::Ordering,
    domain::{
        AttributeValue, attributes, attribution,
        change::Change,
        entity::EntityId,
        names,
        plain::{self, InvalidPlain},
        request_id::RequestId,
        time::EpochMillis,
        time_index,
        version::Version,
    },
};

use self::members::Members;
use crate::update::{
    payload::{Payload, PayloadText},
    sent_at::SentAt,
};

pub use self::{invalid_update::InvalidUpdate, limits::MAX_ATTRIBUTES};

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
pub const RESERVED: [&str; 24] = [
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
    names::CHANGE_SET_SIZE,
    names::RECENT_REQUESTS,
    names::REQUESTS_SINCE,
    names::REQUESTS_DROPPED,
    names::REQUESTS_AHEAD,
    names::TTL,
    names::TOMBSTONE_STATE,
    names::TOMBSTONE_STAGED,
    names::PINNED,
    names::ERASED,
    time_index::PARTITION,
    time_index::INSERTED_AT,
];

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
    /// Number of updates of the [change set](set) to which the update belongs.
    pub change_set_size: Option<u64>,
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
            return Err(InvalidUpdate::Reserved(name));
        }
        let entity = match members.remove(ID) {
            Some(Value::String(id)) => EntityId::new(id)?,
            Some(_) => return Err(InvalidUpdate::NotAString(ID)),
            None => return Err(InvalidUpdate::NoId),
        };
        let mut members = Members(members);
        members.check_change_set()?;
        let time = members.time()?;
        let timestamp = match ordering {
            Ordering::Arrival => None,
            // `Time` stays an attribute.
            Ordering::Time => {
                members.0.remove(names::TIMESTAMP);
                Some(time.ok_or(InvalidUpdate::NoTime)?)
            }
        };
        let update = Self {
            entity,
            request_id: members.request_id(default_request_id)?,
            expected: members.expected_version()?,
            deleted: members.flag(names::DELETED)?,
            timestamp,
            sent_at: members.sent_at()?,
            changes: {
                let is_typed = members.flag(TYPED_VALUES)?;
                changes(members.0, is_typed)?
            },
            request_payload: None,
            sender: None,
            restored_from: None,
            change_set_size: None,
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
        text.changes(&self.changes);
        text.hash()
    }

    /// Returns the hash of a restore: the version to restore and the changes that come with it.
    pub fn restore_payload(version: Version, changes: &BTreeMap<String, Change>) -> Payload {
        Payload::of_operation(&["restore", &version.to_string()], changes)
    }

    /// Returns the hash of an undelete: the changes that come with it. The version to restore follows from history.
    pub fn undelete_payload(changes: &BTreeMap<String, Change>) -> Payload {
        Payload::of_operation(&["undelete"], changes)
    }

    /// Returns the attributes of state that the update sets.
    pub fn new_state(&self) -> impl Iterator<Item = (&String, &AttributeValue)> {
        self.changes.iter().filter_map(|(name, change)| match change {
            Change::Set(value) if attribution::is_state(name) => Some((name, value)),
            _ => None,
        })
    }

    /// Returns `true` if it changes members of maps.
    pub fn changes_members(&self) -> bool {
        self.changes.values().any(|change| matches!(change, Change::Update(_)))
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
        limits::check(self)
    }
}

fn changes(members: Map<String, Value>, is_typed: bool) -> Result<BTreeMap<String, Change>, InvalidUpdate> {
    let change = |(name, value): (String, Value)| {
        let convert = |value: Value| {
            let name = name.clone();
            match is_typed {
                _ if nested::is_in(&value, is_typed) => Err(InvalidUpdate::MisplacedUpdate { name }),
                false => attributes::from_json(value).map_err(|source| InvalidUpdate::Number(name, source)),
                true => plain::from_json(value).map_err(|source| match source {
                    InvalidPlain::Number(source) => InvalidUpdate::Number(name, source),
                    source => InvalidUpdate::Typed(name, source),
                }),
            }
        };
        let change = nested::from_json(value, &convert)?;
        Ok((name, change))
    };
    members.into_iter().map(change).collect()
}

#[cfg(test)]
mod tests;
