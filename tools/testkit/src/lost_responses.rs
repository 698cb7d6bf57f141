//! Loses responses of a DynamoDB that applied the request.

use std::sync::atomic::{AtomicU32, Ordering};

use aws_sdk_dynamodb::{
    config::{
        ConfigBag, Intercept, RuntimeComponents, http::HttpResponse,
        interceptors::BeforeDeserializationInterceptorContextMut,
    },
    error::BoxError,
};

/// Loses the response to every other attempt, beginning with the first: the client receives a server error.
#[derive(Debug, Default)]
pub struct LostResponses(AtomicU32);

impl Intercept for LostResponses {
    fn name(&self) -> &'static str {
        "lost responses"
    }

    fn modify_before_deserialization(
        &self,
        context: &mut BeforeDeserializationInterceptorContextMut<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        if self.0.fetch_add(1, Ordering::Relaxed).is_multiple_of(2) {
            let body = r#"{"__type": "InternalServerError"}"#;
            *context.response_mut() = HttpResponse::new(500.try_into()?, body.into());
        }
        Ok(())
    }
}
