//! Errors of single stream records and of a whole batch.

use shared::{
    domain::{
        attached::key::InvalidKey, attributes::InvalidAttributeValue, version::Version, version_item::InvalidImage,
    },
    dynamodb::{
        client::error::{ErrorKind, ServiceError},
        read::layout_error::LayoutError,
    },
    panics::Panicked,
    printable::shortened,
};
use thiserror::Error;

/// Error of an invocation: Lambda retries the whole batch.
#[derive(Debug, Error)]
pub enum Error {
    /// The event is not a batch of a stream.
    #[error("the event is not a batch of stream records")]
    InvalidEvent,
    /// The table has another layout, or its layout could not be read. No record was processed.
    #[error("the layout of the table was not checked, and no record was processed")]
    Layout(#[from] LayoutError),
    /// A failed record has no sequence number, so the response cannot name it. The other records were written.
    #[error("a record without a sequence number failed")]
    Unnamed(#[source] RecordFailure),
}

/// Error of one stream record. No message contains an attribute value.
#[derive(Debug, Error)]
pub enum RecordFailure {
    /// The record cannot be parsed. A retry does not help.
    #[error("the record is malformed")]
    Malformed(#[from] Malformed),
    /// A different item is stored under the key of its version. It was not changed.
    #[error("a different item is stored as this version")]
    Conflict,
    /// The version is above this one, the latest of the entity. Only a record that does not come from an invocation is checked.
    #[error("its version is above {0}, the latest version of the entity")]
    AboveLatest(Version),
    /// The entity has no latest item that counts versions. Only a record that does not come from an invocation is checked.
    #[error("its entity has no latest item")]
    NoLatestItem,
    /// DynamoDB rejects the version item in every form. A retry does not help.
    #[error("DynamoDB rejects the version item")]
    Rejected(#[source] ServiceError),
    /// A version of the record does not have the state of the item: it does not fit, also compressed. A retry does not help.
    #[error("the item does not fit into a version item, so its version has no state")]
    Omitted,
    /// The record can never become a version, and could not be put into quarantine.
    #[error("the record can never become a version, and was not quarantined")]
    NotQuarantined(#[source] ServiceError),
    /// The invocation ran out of time before the record was written.
    #[error("the invocation had no time left for the record")]
    NotReached,
    /// Other writers appended to the history of its item each time that it was read.
    #[error("other writers append to the history of its item")]
    Contended,
    /// DynamoDB throttled the request.
    #[error("the table is throttled")]
    Throttled(#[source] ServiceError),
    /// The record could not be processed because of a defect of this program.
    #[error("the record could not be processed")]
    Panicked(#[from] Panicked),
    /// The request failed for another reason.
    #[error("the version could not be written")]
    Internal(#[source] ServiceError),
}

impl RecordFailure {
    /// Returns `true` if the record can never become a version with its state, however often it is delivered.
    pub fn is_permanent(&self) -> bool {
        matches!(
            self,
            Self::Malformed(_) | Self::Conflict | Self::Rejected(_) | Self::Omitted
        )
    }
}

impl From<ServiceError> for RecordFailure {
    fn from(error: ServiceError) -> Self {
        match error.kind {
            ErrorKind::Throttled => Self::Throttled(error),
            ErrorKind::Rejected => Self::Rejected(error),
            ErrorKind::Unavailable => Self::Internal(error),
        }
    }
}

/// Reason why a stream record cannot be parsed.
#[derive(Debug, Error)]
pub enum Malformed {
    /// It is not an object, or has no object `dynamodb`.
    #[error("it is not a stream record")]
    NotARecord,
    /// It has no `Keys`, or they contain no sort key.
    #[error("its keys are missing")]
    NoKeys,
    /// Its `eventName` is not one that streams have.
    #[error("its eventName is none of INSERT, MODIFY and REMOVE")]
    EventName,
    /// The latest item was written, but the record has no image of it.
    #[error("it has no NewImage")]
    NoNewImage,
    /// Its keys are not those of the attached table.
    #[error("its keys are not those of the table")]
    Key(#[from] InvalidKey),
    /// It has no sequence number, or no ARN of a DynamoDB stream, so that its place among the changes is not known.
    #[error("it has no sequence number, or no eventSourceARN of a DynamoDB stream")]
    NoPlace,
    /// Its keys are not those of the image.
    #[error("its keys are not those of its NewImage")]
    OtherKeys,
    /// Its keys are not those of its images, in a record of an attached table.
    #[error("its keys are not those of its images")]
    ImageKeys,
    /// An attribute of an image is invalid.
    #[error("the attribute {name} cannot be read", name = shortened(name))]
    Attribute {
        /// Name of the attribute.
        name: String,
        /// Reason, without the value.
        source: InvalidAttributeValue,
    },
    /// The image contains no valid version.
    #[error("its NewImage is not a valid version")]
    Image(#[from] InvalidImage),
}
