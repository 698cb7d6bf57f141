//! Classification of failed attempts: was the request rejected, or is it unknown whether DynamoDB applied it?

use aws_sdk_dynamodb::{
    config::http::HttpResponse,
    error::{ProvideErrorMetadata, SdkError},
};

use crate::dynamodb::client::error::{ErrorKind, kind_of};

/// Failure of a request that can be sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// DynamoDB throttled the request.
    Throttled,
    /// Without a response, it is not known whether the request was applied.
    Unanswered,
}

impl Failure {
    /// Returns `None` if a repetition of the request would fail again.
    pub fn of<E: ProvideErrorMetadata>(error: &SdkError<E, HttpResponse>) -> Option<Self> {
        match error {
            SdkError::TimeoutError(_) | SdkError::DispatchFailure(_) | SdkError::ResponseError(_) => {
                Some(Self::Unanswered)
            }
            // The request [can have succeeded](https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Programming.Errors.html).
            SdkError::ServiceError(failure) if failure.raw().status().is_server_error() => Some(Self::Unanswered),
            SdkError::ServiceError(_) => {
                let is_throttled = error.code().is_some_and(|code| kind_of(code) == ErrorKind::Throttled);
                is_throttled.then_some(Self::Throttled)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use aws_sdk_dynamodb::{
        error::{ConnectorError, ErrorMetadata},
        operation::put_item::PutItemError,
    };

    use super::*;

    #[test]
    fn only_a_request_with_an_answer_is_known_to_have_failed() {
        let answered = |status: u16, code: &str| {
            let error = PutItemError::generic(ErrorMetadata::builder().code(code).build());
            SdkError::service_error(error, HttpResponse::new(status.try_into().unwrap(), "".into()))
        };
        let lost = SdkError::dispatch_failure(ConnectorError::io("connection reset".into()));
        for (error, failure) in [
            (answered(500, "InternalServerError"), Some(Failure::Unanswered)),
            (answered(503, "ThrottlingException"), Some(Failure::Unanswered)),
            (answered(400, "ThrottlingException"), Some(Failure::Throttled)),
            (answered(400, "ConditionalCheckFailedException"), None),
            (lost, Some(Failure::Unanswered)),
            (SdkError::timeout_error("timeout"), Some(Failure::Unanswered)),
            (SdkError::construction_failure("invalid"), None),
        ] {
            assert_eq!(Failure::of(&error), failure, "{error:?}");
        }
    }
}
