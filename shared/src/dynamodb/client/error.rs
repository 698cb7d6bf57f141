//! Errors of requests to DynamoDB. They contain no attribute values.

use aws_sdk_dynamodb::{
    error::{ProvideErrorMetadata, SdkError},
    operation::RequestId as _,
};
use aws_smithy_types::error::display::DisplayErrorContext;
use thiserror::Error;

/// Failed request. Unlike the SDK's errors, which contain whole responses, it contains no attribute values, because the
/// Lambda runtime logs errors completely.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{operation} {detail}")]
pub struct ServiceError {
    /// Name of the operation.
    pub operation: &'static str,
    /// Kind of the error.
    pub kind: ErrorKind,
    /// `true` if the endpoint does not have the operation, as some emulators do not.
    pub is_unsupported: bool,
    detail: String,
    source: Option<Cause>,
}

/// Network error because of which a request could not be sent.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct Cause(String);

/// Kind of a failed request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// DynamoDB throttled the request; it can be retried later.
    Throttled,
    /// The request is invalid, and a retry fails again. Examples: an item above 400 KB, a counter that is not a number.
    Rejected,
    /// The service or the network failed, or a permission is missing.
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
        let is_unsupported = error.code() == Some("UnknownOperationException");
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
            _ => (ErrorKind::Unavailable, "had a response that cannot be read".to_owned()),
        };
        Self {
            operation,
            kind,
            is_unsupported,
            detail,
            source,
        }
    }
}

impl ServiceError {
    /// Creates the error of a request that could not be built.
    pub(crate) fn not_built(operation: &'static str) -> Self {
        Self {
            operation,
            kind: ErrorKind::Rejected,
            is_unsupported: false,
            detail: "could not be built".to_owned(),
            source: None,
        }
    }

    /// Creates the error of a request whose result is not usable. `detail` follows the name of the operation.
    pub(crate) fn unusable(operation: &'static str, detail: &str) -> Self {
        Self {
            operation,
            kind: ErrorKind::Unavailable,
            is_unsupported: false,
            detail: detail.to_owned(),
            source: None,
        }
    }

    /// Creates the error of a request that is not sent.
    pub(crate) fn refused(operation: &'static str, reason: &str) -> Self {
        Self {
            operation,
            kind: ErrorKind::Rejected,
            is_unsupported: false,
            detail: format!("is not sent: {reason}"),
            source: None,
        }
    }

    /// Creates the error of a batch of which DynamoDB processed nothing, because it throttles.
    pub(crate) fn unprocessed(operation: &'static str) -> Self {
        Self {
            operation,
            kind: ErrorKind::Throttled,
            is_unsupported: false,
            detail: "was throttled: DynamoDB left all items unprocessed".to_owned(),
            source: None,
        }
    }

    /// Creates the error of one statement of a batch.
    pub(crate) fn of_statement(operation: &'static str, code: &str) -> Self {
        Self {
            operation,
            kind: kind_of(code),
            is_unsupported: false,
            detail: format!("failed with {code} for one of its statements"),
            source: None,
        }
    }

    /// Adds the reason for the failure: its code and, if `message` names a known limit, that limit.
    pub(crate) fn with_reason(self, kind: ErrorKind, code: &str, message: Option<&str>) -> Self {
        let why = limit_of("ValidationException", message).map_or(String::new(), |limit| format!(": {limit}"));
        Self {
            detail: format!("{} because of {code}{why}", self.detail),
            kind,
            ..self
        }
    }
}

/// Returns the limit that an error message names. The message is dropped, because it can contain names and values.
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

/// Returns the kind of an error code.
pub(crate) fn kind_of(code: &str) -> ErrorKind {
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
    fn known_limits_are_named_without_the_message() {
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
