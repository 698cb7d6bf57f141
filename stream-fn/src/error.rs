//! Why a record, or a whole batch, failed.

use lambda_runtime::Diagnostic;
use shared::{
    domain::{attributes::InvalidAttributeValue, version_item::InvalidImage},
    dynamodb::{
        error::{ErrorKind, ServiceError},
        record_version::RecordError,
    },
    logging::chain,
};
use thiserror::Error;

/// Why a batch failed as a whole.
#[derive(Debug, Error)]
pub enum Error {
    /// Not a batch of a stream.
    #[error("the event is not a batch of stream records")]
    InvalidEvent,
    /// A failed record that has no sequence number cannot be named in a partial answer. The others were written.
    #[error("a record without a sequence number failed")]
    Unnamed(#[source] RecordFailure),
}

impl From<Error> for Diagnostic {
    fn from(error: Error) -> Self {
        let error_type = match &error {
            Error::InvalidEvent => "InvalidEvent",
            Error::Unnamed(failure) => failure.name(),
        };
        Self {
            error_type: error_type.to_owned(),
            error_message: chain(&error),
        }
    }
}

/// Why one record failed. No variant tells a value.
#[derive(Debug, Error)]
pub enum RecordFailure {
    /// It cannot be read, and never will be.
    #[error("the record is malformed")]
    Malformed(#[from] Malformed),
    /// A different item has the key of its version. It was left as it is.
    #[error("a different item is recorded as this version")]
    Conflict,
    /// The time ran out before it was its turn.
    #[error("the invocation had no time left for it")]
    NotReached,
    /// DynamoDB asks to come back later.
    #[error("the table is throttled")]
    Throttled(#[source] ServiceError),
    /// All else.
    #[error("the version could not be written")]
    Internal(#[source] RecordError),
}

impl RecordFailure {
    /// The fixed name of its kind.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Malformed(_) => "Malformed",
            Self::Conflict => "Conflict",
            Self::NotReached => "NotReached",
            Self::Throttled(_) => "Throttled",
            Self::Internal(_) => "Internal",
        }
    }

    /// The failure and its causes, in one line.
    pub fn chain(&self) -> String {
        chain(self)
    }
}

impl From<RecordError> for RecordFailure {
    fn from(error: RecordError) -> Self {
        match error {
            RecordError(error) if error.kind == ErrorKind::Throttled => Self::Throttled(error),
            error => Self::Internal(error),
        }
    }
}

/// What is wrong with a malformed record.
#[derive(Debug, Error)]
pub enum Malformed {
    /// Not an object, or without an object `dynamodb`.
    #[error("it is not a stream record")]
    NotARecord,
    /// Without `Keys`, or without a sort key among them.
    #[error("its keys are missing")]
    NoKeys,
    /// An event of a kind that streams do not have.
    #[error("its eventName is none of INSERT, MODIFY and REMOVE")]
    EventName,
    /// The latest item was written, but its image is not there.
    #[error("it has no NewImage")]
    NoNewImage,
    /// An attribute of the image.
    #[error("the attribute {name} cannot be read")]
    Attribute {
        /// Its name.
        name: String,
        /// What is wrong with it, without its value.
        source: InvalidAttributeValue,
    },
    /// The image as a whole.
    #[error("its NewImage makes no version")]
    Image(#[from] InvalidImage),
}
