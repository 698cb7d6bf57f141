//! Errors become the function errors that upstream sees.

use lambda_runtime::Diagnostic;
use shared::{
    domain::update::InvalidUpdate,
    dynamodb::{error::ErrorKind, write::WriteError},
    logging::chain,
};
use thiserror::Error;

/// Why an update was not applied. Its parts hold no attribute values and no keys: the runtime logs it with all it has.
#[derive(Debug, Error)]
pub enum Error {
    /// The event holds no update. The same event will fail again.
    #[error("the event is invalid")]
    InvalidEvent(#[from] InvalidEvent),
    /// The update expected another version.
    #[error("expected version {expected}, but the latest is {latest}")]
    VersionConflict {
        /// The version that the update expected, 0 for none.
        expected: u64,
        /// The latest version, 0 for none.
        latest: u64,
    },
    /// DynamoDB asks to come back later, or others were faster each time.
    #[error("the table is throttled")]
    Throttled(#[source] WriteError),
    /// All else.
    #[error("the update could not be written")]
    Internal(#[source] WriteError),
}

impl Error {
    /// The fixed name that callers decide by.
    pub fn error_type(&self) -> &'static str {
        match self {
            Self::InvalidEvent(_) => "InvalidEvent",
            Self::VersionConflict { .. } => "VersionConflict",
            Self::Throttled(_) => "Throttled",
            Self::Internal(_) => "Internal",
        }
    }

    /// The error and its causes, in one line.
    pub fn chain(&self) -> String {
        chain(self)
    }
}

impl From<WriteError> for Error {
    fn from(error: WriteError) -> Self {
        if let WriteError::RequestIdReused { .. } = error {
            return Self::InvalidEvent(InvalidEvent::RequestId(error));
        }
        match error.kind() {
            ErrorKind::Throttled => Self::Throttled(error),
            ErrorKind::Rejected => Self::InvalidEvent(InvalidEvent::Rejected(error)),
            ErrorKind::Unavailable => Self::Internal(error),
        }
    }
}

impl From<Error> for Diagnostic {
    fn from(error: Error) -> Self {
        Self {
            error_type: error.error_type().to_owned(),
            error_message: error.chain(),
        }
    }
}

/// Why an event holds no update.
#[derive(Debug, Error)]
pub enum InvalidEvent {
    /// The event, a message body or what is inside it.
    #[error("it is not JSON, or nested too deep")]
    NotJson,
    /// `Records` is not a list.
    #[error("its Records are not a list")]
    Records,
    /// A record without a body.
    #[error("the record is not a message of a queue")]
    Message,
    /// A failed message that has no id cannot be named in a partial answer.
    #[error("a message that failed has no messageId")]
    NoMessageId,
    /// Inside its envelopes there is no update.
    #[error(transparent)]
    Update(#[from] InvalidUpdate),
    /// Its request id belongs to another update.
    #[error(transparent)]
    RequestId(WriteError),
    /// DynamoDB refuses it, whoever sends it: an item above 400 KB, or a value where the counter should be.
    #[error("DynamoDB refuses the update")]
    Rejected(#[source] WriteError),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_type_is_fixed_and_the_message_names_both_versions() {
        let diagnostic = Diagnostic::from(Error::VersionConflict { expected: 3, latest: 5 });
        assert_eq!(diagnostic.error_type, "VersionConflict");
        assert_eq!(diagnostic.error_message, "expected version 3, but the latest is 5");
        let diagnostic = Diagnostic::from(Error::from(InvalidEvent::from(InvalidUpdate::Reserved {
            name: "Latest",
        })));
        assert_eq!(diagnostic.error_type, "InvalidEvent");
        assert_eq!(diagnostic.error_message, "the event is invalid: Latest is reserved");
        assert_eq!(Error::from(WriteError::Unexplained).error_type(), "Internal");
    }
}
