//! Span of each request with its operation, consumed capacity and number of attempts. At level `DEBUG`, also a log line.

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
use tracing::{Level, Span, field::Empty};

use crate::dynamodb::client::capacity;

/// Interceptor for a client's configuration.
#[derive(Debug, Clone, Copy, Default)]
pub struct RequestSpans;

/// Request in progress.
#[derive(Debug, Clone)]
struct InProgress {
    operation: String,
    span: Span,
    since: Instant,
    attempts: u32,
}

impl Storable for InProgress {
    type Storer = StoreReplace<Self>;
}

impl RequestSpans {
    /// Returns `true` if a span or a log line is enabled.
    fn enabled() -> bool {
        tracing::event_enabled!(Level::DEBUG) || tracing::span_enabled!(Level::INFO, "request")
    }
}

impl Intercept for RequestSpans {
    fn name(&self) -> &'static str {
        "request spans"
    }

    // The first moment at which the bag says which operation it is.
    fn modify_before_serialization(
        &self,
        context: &mut BeforeSerializationInterceptorContextMut<'_>,
        _: &RuntimeComponents,
        bag: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        if !Self::enabled() {
            return Ok(());
        }
        capacity::request_capacity(context.input_mut());
        let operation = bag.load::<Metadata>().map_or("", |metadata| metadata.name()).to_owned();
        let span = tracing::info_span!(
            "request",
            otel.name = format!("DynamoDB.{operation}"),
            otel.kind = "client",
            rpc.system = "aws-api",
            db.system = "dynamodb",
            db.operation = operation,
            capacity = Empty,
            attempts = Empty,
            error = Empty,
            otel.status_code = Empty,
        );
        bag.interceptor_state().store_put(InProgress {
            operation,
            span,
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
            span,
            since,
            attempts,
        } = request;
        span.record("attempts", attempts);
        let output = context.output_or_error();
        let capacity = output
            .and_then(Result::ok)
            .and_then(capacity::consumed)
            .map(|charge| charge.units);
        if let Some(capacity) = capacity {
            span.record("capacity", capacity);
        }
        // The code alone: a message can hold values.
        let error = output.and_then(Result::err).map(|error| {
            let code = error.as_operation_error().and_then(capacity::code);
            code.unwrap_or("NoAnswer").to_owned()
        });
        if let Some(error) = &error {
            span.record("error", error).record("otel.status_code", "ERROR");
        }
        let micros = u64::try_from(since.elapsed().as_micros()).unwrap_or(u64::MAX);
        tracing::debug!(operation, capacity, attempts, micros, error, "request");
        // Its end is the span's.
        bag.interceptor_state().unset::<InProgress>();
        Ok(())
    }
}
