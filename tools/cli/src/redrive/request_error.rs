//! What a request to another service than DynamoDB's items fails with.

use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use thiserror::Error;

/// A request that failed. It holds names, and no content.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{operation} {detail}")]
pub(crate) struct RequestError {
    /// The operation, in its service's words.
    operation: &'static str,
    /// The service's code, where it answered.
    code: Option<String>,
    detail: String,
}

impl RequestError {
    pub(crate) fn new<E, R>(operation: &'static str, error: &SdkError<E, R>) -> Self
    where
        E: ProvideErrorMetadata,
    {
        let code = match error {
            SdkError::ServiceError(_) => Some(error.code().unwrap_or("an error without a code").to_owned()),
            _ => None,
        };
        let detail = match (&code, error) {
            (Some(code), _) => format!("failed with {code}"),
            (None, SdkError::TimeoutError(_)) => "timed out".to_owned(),
            (None, SdkError::DispatchFailure(failure)) => match failure.as_connector_error() {
                Some(error) => format!("could not be sent: {}", shared::logging::chain(error)),
                None => "could not be sent".to_owned(),
            },
            (None, SdkError::ConstructionFailure(_)) => "could not be built".to_owned(),
            (None, _) => "had an answer that cannot be read".to_owned(),
        };
        Self {
            operation,
            code,
            detail,
        }
    }

    /// An answer without what it is asked for.
    pub(crate) fn unreadable(operation: &'static str) -> Self {
        Self {
            operation,
            code: None,
            detail: "had an answer that cannot be read".to_owned(),
        }
    }

    /// Whether the service answered with one of these codes.
    pub(crate) fn is(&self, codes: &[&str]) -> bool {
        self.code.as_deref().is_some_and(|code| codes.contains(&code))
    }
}
