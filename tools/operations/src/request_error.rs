//! Errors of requests to S3, SQS and DynamoDB Streams.

use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use shared::dynamodb::client::error::root_cause;
use thiserror::Error;

/// A failed request. It contains the operation and the error code, but no content of documents or messages.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{operation} {detail}")]
pub struct RequestError {
    operation: &'static str,
    code: Option<String>,
    detail: String,
}

impl RequestError {
    pub fn new<E, R>(operation: &'static str, error: &SdkError<E, R>) -> Self
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
                Some(error) => format!("could not be sent: {}", root_cause(error)),
                None => "could not be sent".to_owned(),
            },
            (None, SdkError::ConstructionFailure(_)) => "could not be built".to_owned(),
            (None, _) => "returned an invalid response".to_owned(),
        };
        Self {
            operation,
            code,
            detail,
        }
    }

    /// Returns the function that creates the error of a request.
    pub fn of<E: ProvideErrorMetadata, R>(operation: &'static str) -> impl Fn(SdkError<E, R>) -> Self {
        move |error| Self::new(operation, &error)
    }

    /// Creates the error of a response that lacks the expected content.
    pub fn unreadable(operation: &'static str) -> Self {
        Self {
            operation,
            code: None,
            detail: "returned an invalid response".to_owned(),
        }
    }

    pub fn is(&self, codes: &[&str]) -> bool {
        self.code.as_deref().is_some_and(|code| codes.contains(&code))
    }
}
