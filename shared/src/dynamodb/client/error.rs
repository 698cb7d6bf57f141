//! What a request fails with when DynamoDB, or the way to it, does.

use aws_sdk_dynamodb::{
    error::{ProvideErrorMetadata, SdkError},
    operation::RequestId as _,
};
use aws_smithy_types::error::display::DisplayErrorContext;
use thiserror::Error;

/// A request that failed. It holds names and ids, no attribute values: the SDK's own errors hold whole answers, and
/// the runtime prints errors with all they have.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{operation} {detail}")]
pub struct ServiceError {
    /// The operation, in DynamoDB's words.
    pub operation: &'static str,
    /// What can be done about it.
    pub kind: ErrorKind,
    detail: String,
    source: Option<Cause>,
}

/// Why a request did not get through, in the words of the network.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct Cause(String);

/// What can be done about a failed request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// DynamoDB asks to come back later.
    Throttled,
    /// The request itself is at fault, and the same one will fail again: an item above 400 KB, a counter that is no
    /// number.
    Rejected,
    /// The service, the network or the permissions.
    Unavailable,
}

impl ServiceError {
    pub(crate) fn new<E, R>(operation: &'static str, error: &SdkError<E, R>) -> Self
    where
        E: ProvideErrorMetadata + std::error::Error + 'static,
        R: std::fmt::Debug,
        SdkError<E, R>: aws_sdk_dynamodb::operation::RequestId,
    {
        let mut source = None;
        let (kind, detail) = match error {
            SdkError::ServiceError(_) => {
                let code = error.code().unwrap_or("an error without a code");
                let request = error.request_id().unwrap_or("unknown");
                let why = limit_of(code, error.message()).map_or(String::new(), |limit| format!(": {limit}"));
                (kind_of(code), format!("failed with {code} (request {request}){why}"))
            }
            SdkError::TimeoutError(_) => (ErrorKind::Unavailable, "timed out".to_owned()),
            SdkError::DispatchFailure(failure) => {
                source = failure
                    .as_connector_error()
                    .map(|error| Cause(DisplayErrorContext(error).to_string()));
                (ErrorKind::Unavailable, "could not be sent".to_owned())
            }
            SdkError::ConstructionFailure(_) => (ErrorKind::Rejected, "could not be built".to_owned()),
            _ => (ErrorKind::Unavailable, "had an answer that cannot be read".to_owned()),
        };
        Self {
            operation,
            kind,
            detail,
            source,
        }
    }
}

impl ServiceError {
    /// A request that could not be built.
    pub(crate) fn unbuilt(operation: &'static str) -> Self {
        Self {
            operation,
            kind: ErrorKind::Rejected,
            detail: "could not be built".to_owned(),
            source: None,
        }
    }

    /// One statement of a request, which was answered with this code.
    pub(crate) fn of_statement(operation: &'static str, code: &str) -> Self {
        Self {
            operation,
            kind: kind_of(code),
            detail: format!("failed with {code} for one of its statements"),
            source: None,
        }
    }

    /// The same, with the reason that the answer gave. Of its message, only a limit that it names is told.
    pub(crate) fn because(self, kind: ErrorKind, code: &str, message: Option<&str>) -> Self {
        let why = limit_of("ValidationException", message).map_or(String::new(), |limit| format!(": {limit}"));
        Self {
            detail: format!("{} because of {code}{why}", self.detail),
            kind,
            ..self
        }
    }
}

/// The limit that a refusal names. The message itself is not passed on: it can hold names and values.
fn limit_of(code: &str, message: Option<&str>) -> Option<&'static str> {
    const LIMITS: [(&str, &str); 3] = [
        ("Item size to update has exceeded", TOO_LARGE),
        ("Item size has exceeded", TOO_LARGE),
        (
            "Nesting Levels have exceeded",
            "an attribute would be deeper than 32 levels",
        ),
    ];
    let message = message.filter(|_| code == "ValidationException")?;
    let named = LIMITS.into_iter().find(|(words, _)| message.contains(words));
    named.map(|(_, limit)| limit)
}

const TOO_LARGE: &str = "the item would be larger than 400 KB";

fn kind_of(code: &str) -> ErrorKind {
    match code {
        "ProvisionedThroughputExceededException"
        | "ThrottlingException"
        | "RequestLimitExceeded"
        | "TransactionConflictException"
        | "ProvisionedThroughputExceeded"
        | "ThrottlingError"
        | "TransactionConflict" => ErrorKind::Throttled,
        "ValidationException" | "ItemCollectionSizeLimitExceededException" => ErrorKind::Rejected,
        _ => ErrorKind::Unavailable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_told_in_words_of_our_own() {
        for (code, message, limit) in [
            (
                "ValidationException",
                "Item size to update has exceeded the maximum allowed size",
                Some(TOO_LARGE),
            ),
            (
                "ValidationException",
                "Item size has exceeded the maximum allowed size",
                Some(TOO_LARGE),
            ),
            (
                "ValidationException",
                "ExpressionAttributeValues contains invalid value: Nesting Levels have exceeded supported limits",
                Some("an attribute would be deeper than 32 levels"),
            ),
            (
                "ValidationException",
                "The parameter cannot be converted to a numeric value: secret",
                None,
            ),
            (
                "InternalServerError",
                "Item size has exceeded the maximum allowed size",
                None,
            ),
        ] {
            assert_eq!(limit_of(code, Some(message)), limit, "{message}");
        }
    }
}
