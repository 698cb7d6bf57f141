//! Log line of each request at level `DEBUG`, with its operation, consumed capacity and number of attempts.

use aws_sdk_dynamodb::{
    config::{
        ConfigBag, Intercept, RuntimeComponents,
        interceptors::{
            BeforeSerializationInterceptorContextMut, BeforeTransmitInterceptorContextRef,
            FinalizerInterceptorContextRef,
        },
    },
    error::BoxError,
};
use aws_smithy_runtime_api::client::orchestrator::Metadata;
use aws_smithy_types::config_bag::{Storable, StoreReplace};
use tokio::time::Instant;
use tracing::Level;

use crate::dynamodb::client::capacity;

/// Interceptor for a client's configuration.
#[derive(Debug, Clone, Copy, Default)]
pub struct RequestLog;

/// Request in progress.
#[derive(Debug, Clone)]
struct InProgress {
    operation: String,
    since: Instant,
    attempts: u32,
}

impl Storable for InProgress {
    type Storer = StoreReplace<Self>;
}

impl Intercept for RequestLog {
    fn name(&self) -> &'static str {
        "request log"
    }

    // The first moment at which the bag says which operation it is.
    fn modify_before_serialization(
        &self,
        context: &mut BeforeSerializationInterceptorContextMut<'_>,
        _: &RuntimeComponents,
        bag: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        if !tracing::event_enabled!(Level::DEBUG) {
            return Ok(());
        }
        capacity::request_capacity(context.input_mut());
        let operation = bag.load::<Metadata>().map_or("", |metadata| metadata.name()).to_owned();
        bag.interceptor_state().store_put(InProgress {
            operation,
            since: Instant::now(),
            attempts: 0,
        });
        Ok(())
    }

    fn read_before_transmit(
        &self,
        _: &BeforeTransmitInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        bag: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        if let Some(request) = bag.load::<InProgress>().cloned() {
            let attempts = request.attempts + 1;
            bag.interceptor_state().store_put(InProgress { attempts, ..request });
        }
        Ok(())
    }

    fn read_after_execution(
        &self,
        context: &FinalizerInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        bag: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let Some(request) = bag.load::<InProgress>().cloned() else {
            return Ok(());
        };
        let InProgress {
            operation,
            since,
            attempts,
        } = request;
        let output = context.output_or_error();
        let capacity = output
            .and_then(Result::ok)
            .and_then(capacity::consumed)
            .map(|charge| charge.units);
        // The code alone: a message can hold values.
        let error = output.and_then(Result::err).map(|error| {
            let code = error.as_operation_error().and_then(capacity::code);
            code.unwrap_or("NoAnswer").to_owned()
        });
        let micros = u64::try_from(since.elapsed().as_micros()).unwrap_or(u64::MAX);
        tracing::debug!(operation, capacity, attempts, micros, error, "request");
        Ok(())
    }
}
