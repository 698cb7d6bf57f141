//! Spans of an invocation, with child spans for updates and requests. They are created in builds with the feature `otel`.

use tracing::Span;

/// Creates the span of an invocation. `trace` is the X-Ray trace header.
pub fn invocation(function: &'static str, request_id: &str, trace: Option<&str>) -> Span {
    let span = tracing::info_span!(
        "invocation",
        otel.name = function,
        otel.kind = "server",
        faas.name = function,
        faas.invocation_id = request_id
    );
    #[cfg(feature = "otel")]
    crate::otel::join(&span, trace);
    #[cfg(not(feature = "otel"))]
    let _ = trace;
    span
}

/// Exports the ended spans before the response: Lambda freezes the environment afterwards, and spans could be lost.
pub fn flush() {
    #[cfg(feature = "otel")]
    crate::otel::flush();
}
