//! Spans on their way to an OpenTelemetry collector, by OTLP over HTTP. Where it is, is said by the environment variables that
//! OpenTelemetry defines: `OTEL_EXPORTER_OTLP_ENDPOINT`, by default `http://localhost:4318`, where the extension of the AWS Distro
//! for OpenTelemetry listens.

use std::{collections::HashMap, sync::OnceLock, time::Duration};

use opentelemetry::{propagation::TextMapPropagator as _, trace::TracerProvider as _};
use opentelemetry_aws::trace::XrayPropagator;
use opentelemetry_otlp::{SpanExporter, WithExportConfig as _};
use opentelemetry_sdk::{Resource, trace::SdkTracerProvider};
use tracing::{Metadata, Span, Subscriber};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;
use tracing_subscriber::{Layer, filter::filter_fn, registry::LookupSpan};

use crate::{config, error_chain::chain};

/// How long an export may take: the answer of the invocation waits for it.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(1);

static PROVIDER: OnceLock<SdkTracerProvider> = OnceLock::new();

/// What takes our own spans. `None` where the exporter cannot be set up.
pub fn layer<S>() -> Option<impl Layer<S>>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    let exporter = SpanExporter::builder().with_http().with_timeout(EXPORT_TIMEOUT).build();
    let exporter = exporter
        // There are no log lines yet.
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

/// Spans, and only ours: the libraries' hold what no span of ours does.
fn spans(metadata: &Metadata<'_>) -> bool {
    let ours = ["shared", "writer_fn", "stream_fn"];
    metadata.is_span() && ours.iter().any(|target| metadata.target().starts_with(target))
}

/// Makes a span part of X-Ray's trace.
pub(crate) fn join(span: &Span, header: Option<&str>) {
    let Some(header) = header else { return };
    let carrier = HashMap::from([("x-amzn-trace-id".to_owned(), header.to_owned())]);
    // A span that nobody takes has no parent.
    let _ = span.set_parent(XrayPropagator::new().extract(&carrier));
}

/// Sends what is waiting.
pub(crate) fn flush() {
    if let Some(provider) = PROVIDER.get()
        && let Err(error) = provider.force_flush()
    {
        tracing::warn!(error = chain(&error), "spans were not sent");
    }
}
