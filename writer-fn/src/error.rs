//! Errors of updates, and the function errors that callers receive for them.

use shared::{
    domain::{entity::EntityId, version::Version},
    dynamodb::{client::error::ErrorKind, read::layout_error::LayoutError},
    logging::chain,
    panics::Panicked,
};
use thiserror::Error;

use crate::{counter::WriteError, event::invalid_http::InvalidHttp, update::InvalidUpdate};

/// Error of an update that was not applied. It contains no attribute values and no keys, because the runtime logs it completely.
#[derive(Debug, Error)]
pub enum Error {
    /// The event contains no valid update, or `DynamoDB` rejects the update.
    #[error("the event is invalid")]
    InvalidEvent(#[from] InvalidEvent),
    /// The update expected another version.
    #[error("expected version {expected}, but the latest is {latest}")]
    VersionConflict {
        /// Version that the update expected, 0 for none.
        expected: u64,
        /// Latest version, 0 for none.
        latest: u64,
    },
    /// An update of a change set is older than the latest version. Nothing was written.
    #[error("the update is older than version {version}")]
    Stale {
        /// Latest version.
        version: Version,
    },
    /// A change set failed because of this entity.
    #[error("an update of the change set failed")]
    OfEntity {
        /// Entity, which only the response names.
        entity: EntityId,
        /// Reason.
        source: Box<Error>,
    },
    /// DynamoDB throttled the request, or concurrent updates won every attempt.
    #[error("the table is throttled")]
    Throttled(#[source] WriteError),
    /// Too many versions were created since the update was sent: whether it was applied before is not known. Nothing changed.
    #[error("the update was sent too long ago")]
    Undecided(#[source] WriteError),
    /// The request failed for another reason.
    #[error("the update could not be written")]
    Internal(#[source] WriteError),
    /// The update may have been applied.
    #[error("the update ended with a panic")]
    Panicked(#[from] Panicked),
    /// The table has another layout, or its layout could not be read. Nothing was written.
    #[error("the layout of the table was not checked")]
    Layout(#[from] LayoutError),
    /// The time of the invocation ended first. The update may have been applied.
    #[error("the update was not written before the deadline of the invocation")]
    NotInTime,
}

impl Error {
    /// Returns the error of a change set that failed because of this entity.
    pub(crate) fn of(self, entity: &EntityId) -> Self {
        let (entity, source) = (entity.clone(), Box::new(self));
        Self::OfEntity { entity, source }
    }

    /// Returns the message in the response. Unlike the error, which is logged, it names the entity of a change set that failed.
    pub fn message(&self) -> String {
        match self {
            Self::OfEntity { entity, source } => format!("ID {}: {}", entity.as_str(), chain(&**source)),
            error => chain(error),
        }
    }

    /// Returns the fixed name of the variant, which is the `errorType` of the function error.
    pub fn error_type(&self) -> &'static str {
        match self {
            Self::InvalidEvent(_) => "InvalidEvent",
            Self::VersionConflict { .. } => "VersionConflict",
            Self::Stale { .. } => "Stale",
            Self::OfEntity { source, .. } => source.error_type(),
            Self::Throttled(_) => "Throttled",
            Self::Undecided(_) => "Undecided",
            Self::Layout(LayoutError::Service(error)) if error.kind == ErrorKind::Throttled => "Throttled",
            Self::Layout(LayoutError::Service(_) | LayoutError::NotInTime)
            | Self::Internal(_)
            | Self::Panicked(_)
            | Self::NotInTime => "Internal",
            Self::Layout(_) => "Layout",
        }
    }

    /// Returns `true` if a later delivery of the update can succeed, possibly after other updates changed the item: a version
    /// that is expected can be created, and an item that is too large can become smaller.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::VersionConflict { expected, latest } => expected >= latest,
            Self::InvalidEvent(InvalidEvent::Rejected(_)) => true,
            Self::OfEntity { source, .. } => source.is_retryable(),
            Self::InvalidEvent(_)
            | Self::Stale { .. }
            | Self::Internal(WriteError::Pruned { .. } | WriteError::VersionUnknown) => false,
            Self::Throttled(_)
            | Self::Undecided(_)
            | Self::Internal(_)
            | Self::Layout(_)
            | Self::Panicked(_)
            | Self::NotInTime => true,
        }
    }
}

impl From<WriteError> for Error {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::RequestIdReused { .. } | WriteError::TooManyActions { .. } | WriteError::TooLargeTogether => {
                return Self::InvalidEvent(InvalidEvent::Never(error));
            }
            WriteError::TooManyToSearch => return Self::Undecided(error),
            WriteError::Layout(error) => return Self::Layout(*error),
            _ => {}
        }
        match error.kind() {
            ErrorKind::Throttled => Self::Throttled(error),
            ErrorKind::Rejected => Self::InvalidEvent(InvalidEvent::Rejected(error)),
            ErrorKind::Unavailable => Self::Internal(error),
        }
    }
}

/// Reason why an event contains no valid update.
#[derive(Debug, Error)]
pub enum InvalidEvent {
    /// The event, a message body or an envelope inside it is not JSON.
    #[error("it is not JSON, or nested too deeply")]
    NotJson,
    /// The event, a message body or an envelope inside it has more elements and members than an item can have.
    #[error("it has more elements and members than an item of 400 KB can have")]
    TooManyParts,
    /// `Records` has more messages than a batch can have.
    #[error("Records has more than 10,000 messages")]
    TooManyMessages,
    /// `Records` is not a list.
    #[error("Records is not a list")]
    Records,
    /// A record has no body.
    #[error("the record is not a queue message")]
    Message,
    /// A record of a Kinesis stream has no data.
    #[error("the record is not one of a Kinesis stream")]
    Record,
    /// The data of a record, or the body of an HTTP request, is not base64.
    #[error("it is not base64")]
    Base64,
    /// SNS invoked the function without a notification, or with several.
    #[error("Records is not one SNS notification")]
    Notification,
    /// The event comes from a service that sends no updates.
    #[error("it comes from {0}, and is no update: send updates, see docs/events.md")]
    Foreign(&'static str),
    /// An HTTP request contains no valid update.
    #[error(transparent)]
    Http(#[from] InvalidHttp),
    /// It could not be parsed because of a defect of this program.
    #[error("it could not be parsed")]
    Panicked(#[from] Panicked),
    /// A failed message has no id, so the response cannot name it.
    #[error("a message that failed has no messageId or sequenceNumber")]
    NoMessageId,
    /// The update inside the envelopes is invalid.
    #[error(transparent)]
    Update(#[from] InvalidUpdate),
    /// The request id belongs to another update, or the change set does not fit into a transaction.
    #[error(transparent)]
    Never(WriteError),
    /// DynamoDB rejects the update: the item is larger than 400 KB, or the counter is not a number. Another update, or a
    /// repair, can change that.
    #[error("DynamoDB rejects the update")]
    Rejected(#[source] WriteError),
}

#[cfg(test)]
mod tests {
    use shared::domain::version_item::InvalidImage;

    use super::*;

    #[test]
    fn the_error_type_is_fixed_and_the_message_names_both_versions() {
        let error = Error::VersionConflict { expected: 3, latest: 5 };
        assert_eq!(error.error_type(), "VersionConflict");
        assert_eq!(chain(&error), "expected version 3, but the latest is 5");
        let error = Error::from(InvalidEvent::from(InvalidUpdate::Reserved("Latest")));
        assert_eq!(error.error_type(), "InvalidEvent");
        assert_eq!(chain(&error), "the event is invalid: Latest is reserved");
        assert_eq!(Error::from(WriteError::FailedWithoutViolation).error_type(), "Internal");
        assert_eq!(Error::NotInTime.error_type(), "Internal");
    }

    #[test]
    fn a_later_delivery_can_succeed_unless_the_update_can_never_be_applied() {
        let version = Version::FIRST;
        let conflict = Error::VersionConflict { expected: 3, latest: 5 };
        for error in [
            conflict,
            InvalidEvent::NotJson.into(),
            InvalidEvent::from(Panicked).into(),
            WriteError::Pruned { version }.into(),
            WriteError::RequestIdReused { version }.into(),
            InvalidEvent::from(InvalidUpdate::Reserved("Latest")).into(),
        ] {
            assert!(!error.is_retryable(), "{error:?}");
        }
        for error in [
            Error::NotInTime,
            Panicked.into(),
            Error::VersionConflict { expected: 5, latest: 4 },
            Error::VersionConflict { expected: 0, latest: 0 },
            WriteError::Latest(InvalidImage::NoLatest).into(),
            WriteError::HistoryBehind { version }.into(),
            WriteError::CounterMissing { version }.into(),
            WriteError::Contended { attempts: 20 }.into(),
        ] {
            assert!(error.is_retryable(), "{error:?}");
        }
    }
}
