//! Counts the requests of a client.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use aws_sdk_dynamodb::{
    config::{
        ConfigBag, Intercept, RuntimeComponents,
        interceptors::{BeforeSerializationInterceptorContextRef, FinalizerInterceptorContextRef},
    },
    error::BoxError,
    operation::update_item::UpdateItemError,
};

/// Counts requests, and the updates among them whose condition failed. Such an update consumes write units, but its error reports none.
#[derive(Debug, Clone, Default)]
pub struct RequestCounter(Arc<(AtomicU32, AtomicU32)>);

impl RequestCounter {
    /// Returns the number of requests since the last call, and the number of updates among them whose condition failed.
    pub fn take(&self) -> (u32, u32) {
        (self.0.0.swap(0, Ordering::Relaxed), self.0.1.swap(0, Ordering::Relaxed))
    }
}

impl Intercept for RequestCounter {
    fn name(&self) -> &'static str {
        "requests"
    }

    fn read_before_serialization(
        &self,
        _: &BeforeSerializationInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        self.0.0.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn read_after_execution(
        &self,
        context: &FinalizerInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let error = match context.output_or_error() {
            Some(Err(error)) => error.as_operation_error(),
            _ => None,
        };
        let error = error.and_then(|error| error.downcast_ref::<UpdateItemError>());
        if error.is_some_and(UpdateItemError::is_conditional_check_failed_exception) {
            self.0.1.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }
}
