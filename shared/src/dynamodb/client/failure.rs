//! Classification of failed attempts: was the request rejected, or is it unknown whether DynamoDB applied it?
//!
//! The SDK retries a request whose response was lost. If the first attempt was applied, the condition of the second one
//! fails on the writer's own item. [`UnansweredAttempts`] tells this case from a concurrent writer.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use aws_sdk_dynamodb::{
    config::{
        ConfigBag, Intercept, RuntimeComponents, http::HttpResponse, interceptors::FinalizerInterceptorContextRef,
    },
    error::{BoxError, ProvideErrorMetadata, SdkError},
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
            SdkError::ServiceError(failure) if is_unknown(failure.raw()) => Some(Self::Unanswered),
            SdkError::ServiceError(_) => {
                let is_throttled = error.code().is_some_and(|code| kind_of(code) == ErrorKind::Throttled);
                is_throttled.then_some(Self::Throttled)
            }
            _ => None,
        }
    }
}

/// Returns `true` for a server error: the request
/// [can have succeeded](https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Programming.Errors.html).
fn is_unknown(response: &HttpResponse) -> bool {
    response.status().is_server_error()
}

/// Interceptor of one operation that detects attempts without a response.
#[derive(Debug, Clone, Default)]
pub struct UnansweredAttempts(Arc<AtomicBool>);

impl UnansweredAttempts {
    /// Returns `true` if DynamoDB can have applied an attempt without a response.
    pub fn any(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl Intercept for UnansweredAttempts {
    fn name(&self) -> &'static str {
        "unanswered attempts"
    }

    fn read_after_attempt(
        &self,
        context: &FinalizerInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let Some(Err(error)) = context.output_or_error() else {
            return Ok(());
        };
        // The cases of `Failure::Unanswered`, as the SDK represents them inside of an operation.
        let is_unanswered = if error.is_operation_error() {
            context.response().is_some_and(is_unknown)
        } else {
            error.is_timeout_error() || error.is_connector_error() || error.is_response_error()
        };
        self.0.fetch_or(is_unanswered, Ordering::Relaxed);
        Ok(())
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
            let response = HttpResponse::new(status.try_into().unwrap(), "".into());
            Failure::of(&SdkError::service_error(error, response))
        };
        assert_eq!(answered(500, "InternalServerError"), Some(Failure::Unanswered));
        assert_eq!(answered(503, "ThrottlingException"), Some(Failure::Unanswered));
        assert_eq!(answered(400, "ThrottlingException"), Some(Failure::Throttled));
        assert_eq!(answered(400, "ConditionalCheckFailedException"), None);
        let lost: SdkError<PutItemError, HttpResponse> =
            SdkError::dispatch_failure(ConnectorError::io("connection reset".into()));
        assert_eq!(Failure::of(&lost), Some(Failure::Unanswered));
        let timeout: SdkError<PutItemError, HttpResponse> = SdkError::timeout_error("timeout");
        assert_eq!(Failure::of(&timeout), Some(Failure::Unanswered));
        let unsent: SdkError<PutItemError, HttpResponse> = SdkError::construction_failure("invalid");
        assert_eq!(Failure::of(&unsent), None);
    }
}
