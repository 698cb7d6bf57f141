//! Spans of an invocation, with child spans for updates and requests. They are created in builds with the feature `otel`.

use tracing::Span;

use crate::clock::Deadline;

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

/// Exports the ended spans before the response: Lambda freezes the environment afterwards, and spans could be lost. It stops
/// to wait for a collector that does not respond in time.
pub async fn flush(deadline: Deadline) {
    #[cfg(feature = "otel")]
    let flushed = crate::otel::flush();
    #[cfg(not(feature = "otel"))]
    let flushed = std::future::ready(());
    if tokio::time::timeout_at(deadline.respond_by, flushed).await.is_err() {
        tracing::warn!("spans were not sent in time");
    }
}
