//! Errors of requests to S3, SQS and DynamoDB Streams.

use std::error::Error as StdError;

use aws_sdk_dynamodb::{
    config::http::HttpResponse,
    error::{ProvideErrorMetadata, SdkError},
};
use shared::dynamodb::client::error::ServiceError;
use thiserror::Error;

/// A failed request. It contains the operation and the error code, but no content of documents or messages.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(transparent)]
pub struct RequestError(ServiceError);

impl RequestError {
    /// Returns the function that creates the error of a request.
    pub fn of<E: ProvideErrorMetadata + StdError + 'static>(
        operation: &'static str,
    ) -> impl Fn(SdkError<E, HttpResponse>) -> Self {
        move |error| Self(ServiceError::new(operation, &error))
    }

    /// Creates the error of a response that lacks the expected content.
    pub fn unreadable(operation: &'static str) -> Self {
        Self(ServiceError::unusable(operation, "returned an invalid response"))
    }

    pub fn is(&self, codes: &[&str]) -> bool {
        self.0.code.as_deref().is_some_and(|code| codes.contains(&code))
    }
}
