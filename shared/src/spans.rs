//! The spans of an invocation: one of its own, under it one for each update, and one for each request. They are made where
//! somebody takes them, which is a build with the feature `otel`.

use tracing::Span;

/// The span of one invocation of a function. `trace` is the header by which X-Ray tells which trace it belongs to.
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

/// Sends the spans that have ended, before the answer: what an environment still holds then may wait for long, or be lost.
pub fn flush() {
    #[cfg(feature = "otel")]
    crate::otel::flush();
}
