//! Export of spans to an OpenTelemetry collector, by OTLP over HTTP. `OTEL_EXPORTER_OTLP_ENDPOINT` is its address, by default
//! `http://localhost:4318`, where the AWS Distro for OpenTelemetry extension listens.

use std::{collections::HashMap, sync::OnceLock, time::Duration};

use opentelemetry::{propagation::TextMapPropagator as _, trace::TracerProvider as _};
use opentelemetry_aws::trace::XrayPropagator;
use opentelemetry_otlp::{SpanExporter, WithExportConfig as _};
use opentelemetry_sdk::{Resource, trace::SdkTracerProvider};
use tracing::{Metadata, Span, Subscriber};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;
use tracing_subscriber::{Layer, filter::filter_fn, registry::LookupSpan};

use crate::{config, error_chain::chain};

/// Timeout of an export. The response of the invocation waits for it.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(1);

static PROVIDER: OnceLock<SdkTracerProvider> = OnceLock::new();

/// Returns the layer that exports the project's spans, `None` if the exporter cannot be set up.
pub fn layer<S>() -> Option<impl Layer<S>>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    let exporter = SpanExporter::builder().with_http().with_timeout(EXPORT_TIMEOUT).build();
    let exporter = exporter
        // Logging is not set up yet.
        .inspect_err(|error| {
            let _ = std::io::Write::write_all(&mut std::io::stderr(), chain(error).as_bytes());
        })
        .ok()?;
    let service = config::service_name();
    let provider = SdkTracerProvider::builder()
        .with_batch_exporter(exporter)
        .with_resource(Resource::builder().with_service_name(service).build())
        .build();
    let tracer = provider.tracer("version-control");
    PROVIDER.set(provider).ok()?;
    let layer = tracing_opentelemetry::layer()
        .with_tracer(tracer)
        .with_location(false)
        .with_threads(false)
        .with_target(false)
        .with_filter(filter_fn(spans));
    Some(layer)
}

/// Selects the project's spans: spans of libraries can hold payloads.
fn spans(metadata: &Metadata<'_>) -> bool {
    let ours = ["shared", "writer_fn", "stream_fn"];
    metadata.is_span() && ours.iter().any(|target| metadata.target().starts_with(target))
}

/// Adds a span to an X-Ray trace.
pub(crate) fn join(span: &Span, header: Option<&str>) {
    let Some(header) = header else { return };
    let carrier = HashMap::from([("x-amzn-trace-id".to_owned(), header.to_owned())]);
    // A span that no layer records has no parent.
    let _ = span.set_parent(XrayPropagator::new().extract(&carrier));
}

/// Exports the pending spans. The exporter blocks, so it has a thread of its own.
pub(crate) async fn flush() {
    let Some(provider) = PROVIDER.get() else { return };
    if let Ok(Err(error)) = tokio::task::spawn_blocking(|| provider.force_flush()).await {
        tracing::warn!(error = chain(&error), "spans were not sent");
    }
}
