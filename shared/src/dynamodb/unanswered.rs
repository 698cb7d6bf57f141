//! Detection of attempts without a response.
//!
//! The SDK retries a request whose response was lost. If the first attempt was applied, the condition of the second one
//! fails on the writer's own item. [`UnansweredAttempts`] tells this case from a concurrent writer.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use aws_sdk_dynamodb::{
    config::{ConfigBag, Intercept, RuntimeComponents, interceptors::FinalizerInterceptorContextRef},
    error::BoxError,
};

/// Interceptor of one operation that detects attempts without a response.
#[derive(Debug, Clone, Default)]
pub(super) struct UnansweredAttempts(Arc<AtomicBool>);

impl UnansweredAttempts {
    /// Returns `true` if DynamoDB can have applied an attempt without a response.
    pub(super) fn any(&self) -> bool {
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
        // A server error can come from a request that succeeded.
        let is_unanswered = if error.is_operation_error() {
            context
                .response()
                .is_some_and(|response| response.status().is_server_error())
        } else {
            error.is_timeout_error() || error.is_connector_error() || error.is_response_error()
        };
        self.0.fetch_or(is_unanswered, Ordering::Relaxed);
        Ok(())
    }
}
