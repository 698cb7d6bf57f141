//! Errors of requests to DynamoDB. They contain no attribute values.

use aws_sdk_dynamodb::{
    error::{ProvideErrorMetadata, SdkError},
    operation::RequestId as _,
};
use thiserror::Error;

use crate::printable::shortened;

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
    /// Error code of the service. `None` if the service did not respond.
    pub code: Option<String>,
    /// Reason why the request did not reach the service.
    pub unsent: Option<Unsent>,
    detail: String,
    source: Option<Cause>,
}

/// Reason why a request did not reach the service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unsent {
    /// The connection failed: the port is closed, the host is unknown, or the network is down.
    NotConnected,
    /// No provider has credentials.
    NoCredentials,
    /// No Region is configured.
    NoRegion,
    /// The endpoint is not a URL.
    InvalidEndpoint,
}

/// Root cause because of which a request could not be sent.
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
    /// Creates the error of a request of this operation.
    pub fn new<E, R>(operation: &'static str, error: &SdkError<E, R>) -> Self
    where
        E: ProvideErrorMetadata + std::error::Error + 'static,
        R: std::fmt::Debug,
        SdkError<E, R>: aws_sdk_dynamodb::operation::RequestId,
    {
        let (mut source, mut unsent) = (None, None);
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
                if let Some(error) = failure.as_connector_error() {
                    source = Some(Cause(root_cause(error)));
                    unsent = Some(Unsent::of(error));
                }
                (ErrorKind::Unavailable, "could not be sent".to_owned())
            }
            SdkError::ConstructionFailure(_) => (ErrorKind::Rejected, "could not be built".to_owned()),
            _ => (ErrorKind::Unavailable, "had a response that cannot be read".to_owned()),
        };
        Self {
            operation,
            kind,
            is_unsupported,
            code: error.code().map(str::to_owned),
            unsent,
            detail,
            source,
        }
    }
}

impl Unsent {
    /// The SDK has no types for these reasons, only texts.
    fn of(error: &(dyn std::error::Error + 'static)) -> Self {
        let text = crate::error_chain::chain(error).to_lowercase();
        let contains = |words: &[&str]| words.iter().any(|words| text.contains(words));
        if contains(&["missing region", "missing signing region"]) {
            Self::NoRegion
        } else if contains(&["failed to apply endpoint", "invalid endpoint", "endpoint must"]) {
            Self::InvalidEndpoint
        } else if contains(&["credential"]) {
            Self::NoCredentials
        } else {
            Self::NotConnected
        }
    }
}

/// Returns the text of the innermost error, without the number of the operating system. Outer errors of the SDK can contain whole
/// requests.
pub fn root_cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut root = error;
    while let Some(source) = root.source() {
        root = source;
    }
    let text = root.to_string();
    let line = text.lines().next().unwrap_or_default();
    let line = line.split(". Attempted").next().unwrap_or_default();
    let line = line.split(" (os error").next().unwrap_or_default();
    let mut letters = line.chars();
    let first = letters.next().map(char::to_lowercase);
    first.into_iter().flatten().chain(letters).collect()
}

impl ServiceError {
    fn without_response(operation: &'static str, kind: ErrorKind, detail: String) -> Self {
        Self {
            operation,
            kind,
            is_unsupported: false,
            code: None,
            unsent: None,
            detail,
            source: None,
        }
    }

    /// Creates the error of a request that could not be built.
    pub fn not_built(operation: &'static str) -> Self {
        Self::without_response(operation, ErrorKind::Rejected, "could not be built".to_owned())
    }

    /// Creates the error of a request whose result is not usable. `detail` follows the name of the operation.
    pub fn unusable(operation: &'static str, detail: &str) -> Self {
        Self::without_response(operation, ErrorKind::Unavailable, detail.to_owned())
    }

    /// Creates the error of a request that is not sent.
    pub fn refused(operation: &'static str, reason: &str) -> Self {
        Self::without_response(operation, ErrorKind::Rejected, format!("is not sent: {reason}"))
    }

    /// Creates the error of a batch of which DynamoDB processed nothing, because it throttles.
    pub fn unprocessed(operation: &'static str) -> Self {
        let detail = "was throttled: DynamoDB left all items unprocessed".to_owned();
        Self::without_response(operation, ErrorKind::Throttled, detail)
    }

    /// Creates the error of one statement of a batch.
    pub(crate) fn of_statement(operation: &'static str, code: &str) -> Self {
        let detail = format!("failed with {code} for one of its statements");
        Self {
            code: Some(code.to_owned()),
            ..Self::without_response(operation, kind_of(code), detail)
        }
    }

    /// Adds the reason for the failure: its code and, if `message` names a known limit, that limit.
    #[must_use]
    pub fn with_reason(self, kind: ErrorKind, code: &str, message: Option<&str>) -> Self {
        let why = limit_of("ValidationException", message).map_or(String::new(), |limit| format!(": {limit}"));
        Self {
            detail: format!("{} because of {code}{why}", self.detail),
            kind,
            ..self
        }
    }
}

/// Returns the limit that an error message names. The message itself is dropped, because it can contain values.
fn limit_of(code: &str, message: Option<&str>) -> Option<String> {
    const LIMITS: [(&str, &str); 5] = [
        ("Item size to update has exceeded", TOO_LARGE),
        ("Item size has exceeded", TOO_LARGE),
        (
            "Nesting Levels have exceeded",
            "an attribute would be deeper than 32 levels",
        ),
        (
            "ize of hashkey has exceeded",
            "the key of an index would be longer than 2,048 bytes",
        ),
        (
            "ize of all range keys has exceeded",
            "the sort key of an index would be longer than 1,024 bytes",
        ),
    ];
    let message = message.filter(|_| code == "ValidationException")?;
    let named = LIMITS.into_iter().find(|(words, _)| message.contains(words));
    named
        .map(|(_, limit)| limit.to_owned())
        .or_else(|| index_key_of(message))
}

/// Returns the key of an index that an error message names. It contains names and types, and no values.
fn index_key_of(message: &str) -> Option<String> {
    let between = |start: &str, ends: &[&str]| {
        let (_, rest) = message.split_once(start)?;
        let end = ends.iter().filter_map(|end| rest.find(end)).min().unwrap_or(rest.len());
        let name = rest.get(..end)?.trim();
        (!name.is_empty()).then(|| shortened(name).into_owned())
    };
    let index =
        between("IndexName: ", &[","]).map_or_else(|| "an index".to_owned(), |name| format!("the index {name}"));
    if message.contains("Type mismatch for Index Key") {
        let attribute = between("Index Key ", &[" Expected:"])?;
        let (expected, actual) = (between("Expected: ", &[" "])?, between("Actual: ", &[" "])?);
        return Some(format!(
            "{attribute} is a key of {index}, so its type is {expected}, not {actual}"
        ));
    }
    if message.contains("cannot contain an empty") && message.contains("IndexKey") {
        let attribute = between("IndexKey: ", &[","])?;
        return Some(format!("{attribute} is a key of {index}, so it cannot be empty"));
    }
    None
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
        "ValidationException"
        | "ItemCollectionSizeLimitExceededException"
        | "ValidationError"
        | "ItemCollectionSizeLimitExceeded" => ErrorKind::Rejected,
        _ => ErrorKind::Unavailable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_limits_are_named_without_the_message() {
        const DEEP: &str =
            "ExpressionAttributeValues contains invalid value: Nesting Levels have exceeded supported limits";
        const MISMATCH: &str = "One or more parameter values were invalid: Type mismatch for Index Key State Expected: S \
            Actual: N IndexName: byState";
        const EMPTY: &str = "One or more parameter values are not valid. A value specified for a secondary index key is not \
            supported. The AttributeValue for a key attribute cannot contain an empty string value. IndexName: byState, \
            IndexKey: State";
        const LONG: &str = "One or more parameter values were invalid: Size of hashkey has exceeded the maximum size limit \
            of2048 bytes";
        for (message, limit) in [
            (
                "Item size to update has exceeded the maximum allowed size",
                Some(TOO_LARGE),
            ),
            ("Item size has exceeded the maximum allowed size", Some(TOO_LARGE)),
            (DEEP, Some("an attribute would be deeper than 32 levels")),
            ("The parameter cannot be converted to a numeric value: secret", None),
            (
                MISMATCH,
                Some("State is a key of the index byState, so its type is S, not N"),
            ),
            (
                EMPTY,
                Some("State is a key of the index byState, so it cannot be empty"),
            ),
            (LONG, Some("the key of an index would be longer than 2,048 bytes")),
        ] {
            assert_eq!(
                limit_of("ValidationException", Some(message)).as_deref(),
                limit,
                "{message}"
            );
            assert_eq!(limit_of("InternalServerError", Some(message)), None, "{message}");
        }
    }

    #[test]
    fn a_cause_is_the_innermost_error_in_one_line() {
        #[derive(Debug, Error)]
        #[error("failed to apply endpoint `x` to request `{{secret}}`")]
        struct Outer(#[source] std::io::Error);

        let error = |text: &str| Outer(std::io::Error::other(text.to_owned()));
        let chain = "no credentials found in chain";
        for (text, cause) in [
            ("Connection refused (os error 111)", "connection refused"),
            (&format!("{chain}. Attempted:\n a\n b"), chain),
            ("", ""),
        ] {
            assert_eq!(root_cause(&error(text)), cause);
        }
        assert_eq!(Unsent::of(&error("x")), Unsent::InvalidEndpoint);
        for (text, unsent) in [
            ("Missing Region", Unsent::NoRegion),
            ("no credentials", Unsent::NoCredentials),
            ("connection refused", Unsent::NotConnected),
        ] {
            assert_eq!(Unsent::of(&std::io::Error::other(text)), unsent);
        }
    }
}
