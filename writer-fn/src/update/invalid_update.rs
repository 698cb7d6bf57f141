//! Reasons why a JSON value is not a valid update.

use shared::{
    domain::{
        entity::InvalidEntityId,
        number::InvalidNumber,
        plain::InvalidPlain,
        request_id::{InvalidRequestId, MAX_REQUEST_ID_BYTES},
        size::{self, OverLimit},
        time::InvalidTime,
    },
    printable::shortened,
};
use thiserror::Error;

use crate::update::{MAX_ATTRIBUTES, set::ENTITIES};

/// Reason why a JSON value is not a valid update. No variant holds a value.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum InvalidUpdate {
    /// The JSON value is not an object.
    #[error("the update is not a JSON object")]
    NotAnObject,
    /// [`ID`](super::ID) is missing.
    #[error("ID is missing")]
    NoId,
    /// A member that is a string has another type.
    #[error("{0} is not a string")]
    NotAString(&'static str),
    /// A member that is `true` or `false` has another type.
    #[error("{0} is not true or false")]
    NotABool(&'static str),
    /// [`ID`](super::ID) is not a valid partition key.
    #[error("ID is not a partition key")]
    Id(#[from] InvalidEntityId),
    /// The update sets one of [`RESERVED`](super::RESERVED).
    #[error("{0} is reserved")]
    Reserved(&'static str),
    /// `RequestId` or its default has an invalid length.
    #[error(transparent)]
    RequestId(#[from] InvalidRequestId),
    /// `ChangeSet` is not the name of a change set.
    #[error("ChangeSet is not a string of 1 to {MAX_REQUEST_ID_BYTES} bytes")]
    ChangeSet,
    /// [`UPDATES`](super::set::UPDATES) is not a list.
    #[error("Updates is not a list")]
    Updates,
    /// A change set has too few or too many updates.
    #[error("Updates has {0} updates, and {min} to {max} are allowed", min = ENTITIES.start(), max = ENTITIES.end())]
    SetOf(usize),
    /// A change set has a member of one entity.
    #[error("{0} belongs to one entity: put it into each element of Updates")]
    OfEachUpdate(String),
    /// An update of a change set has a member of the set.
    #[error("{0} belongs to the whole change set: put it beside Updates")]
    OfSet(&'static str),
    /// An update of a change set has the entity of an earlier one.
    #[error("Updates[{0}] has the same ID")]
    Twice(usize),
    /// An update of a change set is invalid.
    #[error("Updates[{0}] is invalid")]
    InSet(usize, #[source] Box<InvalidUpdate>),
    /// [`EXPECTED_VERSION`](super::EXPECTED_VERSION) is not a whole number from 0.
    #[error("ExpectedVersion is not a whole number from 0")]
    ExpectedVersion,
    /// Updates are ordered by time, and this update has no time.
    #[error("Time is missing, and updates are ordered by time")]
    NoTime,
    /// `Time` is not an ISO 8601 date and time.
    #[error("Time cannot be read")]
    Time(#[from] InvalidTime),
    /// `Timestamp` is not a whole number of milliseconds.
    #[error("Timestamp is not a whole number of epoch milliseconds")]
    Timestamp,
    /// [`REQUEST_SENT_AT`](super::REQUEST_SENT_AT) is neither an ISO 8601 date and time nor a whole number of milliseconds.
    #[error("RequestSentAt is neither an ISO 8601 date and time nor a whole number of epoch milliseconds")]
    RequestSentAt,
    /// `Time` and `Timestamp` differ.
    #[error("Time and Timestamp are different times")]
    TimesDisagree,
    /// An attribute name is empty.
    #[error("an attribute has no name")]
    EmptyName,
    /// DynamoDB cannot store a number exactly.
    #[error("the number in {name} cannot be stored", name = shortened(.0))]
    Number(String, #[source] InvalidNumber),
    /// A value of an update with [`TYPED_VALUES`](super::TYPED_VALUES) has an invalid form.
    #[error("the value of {name} cannot be read", name = shortened(.0))]
    Typed(String, #[source] InvalidPlain),
    /// An attribute name is longer than [`size::MAX_NAME_BYTES`].
    #[error("the name of an attribute has {0} bytes, and {max} are allowed", max = size::MAX_NAME_BYTES)]
    LongName(usize),
    /// DynamoDB cannot store a value.
    #[error("the value of {name} cannot be stored", name = shortened(.0))]
    Attribute(String, #[source] OverLimit),
    /// `$update` is inside of a value, or is not an object.
    #[error("$update in {name} is neither in place of an attribute nor of a member of another $update", name = shortened(name))]
    MisplacedUpdate {
        /// Name of the attribute.
        name: String,
    },
    /// `$update` is empty.
    #[error("the update of {name} names no members", name = shortened(.0))]
    NoMembers(String),
    /// The update changes members of an attribute that belongs to one version.
    #[error("{name} describes one version, so an update replaces it", name = shortened(.0))]
    UpdateOfRecord(String),
    /// The attributes of the update exceed the size of an item.
    #[error(transparent)]
    TooLarge(#[from] OverLimit),
    /// The update exceeds the size of an item, including the names it removes.
    #[error("the update has {0} bytes, and {max} are allowed", max = size::MAX_ITEM_BYTES)]
    TooManyBytes(usize),
    /// The update has more than [`MAX_ATTRIBUTES`] attributes.
    #[error("the update has {0} attributes, and {MAX_ATTRIBUTES} are allowed")]
    TooManyAttributes(usize),
}
