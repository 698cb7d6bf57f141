//! Logs: one JSON object per line on standard output, which Lambda sends to CloudWatch Logs.

use tracing::{Level, Metadata, level_filters::LevelFilter};
use tracing_subscriber::{
    Layer as _,
    filter::{Targets, filter_fn},
    layer::SubscriberExt as _,
    util::SubscriberInitExt as _,
};

pub use crate::error_chain::chain;

use crate::config;

/// Sets up logging for a function. The level is that of Lambda's logging controls, `INFO` by default.
///
/// Libraries never log below `INFO`: the runtime and the SDK log payloads there, which hold attribute values.
pub fn init() {
    let level = config::log_level().and_then(|level| level.parse().ok());
    let lines = lines(level.unwrap_or(LevelFilter::INFO));
    let format = tracing_subscriber::fmt::layer()
        .json()
        .flatten_event(true)
        .with_current_span(true)
        .with_span_list(false)
        .with_filter(filter_fn(lines));
    let registry = tracing_subscriber::registry().with(format);
    #[cfg(feature = "otel")]
    let registry = registry.with(crate::otel::layer());
    // A second call, in a process that hosts both functions, changes nothing.
    let _ = registry.try_init();
}

/// Returns the filter of log lines: events by level, and the span of the invocation at every level, so that each line names
/// its invocation.
fn lines(level: LevelFilter) -> impl Fn(&Metadata<'_>) -> bool {
    let targets = targets(level);
    move |metadata| match metadata.is_span() {
        true => metadata.target().starts_with("lambda_runtime") && *metadata.level() <= Level::INFO,
        false => targets.would_enable(metadata.target(), metadata.level()),
    }
}

fn targets(level: LevelFilter) -> Targets {
    let libraries = level.min(LevelFilter::INFO);
    Targets::new()
        .with_default(libraries)
        .with_target("shared", level)
        .with_target("writer_fn", level)
        .with_target("stream_fn", level)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_are_logged_at_no_level() {
        for level in [LevelFilter::TRACE, LevelFilter::DEBUG] {
            let targets = targets(level);
            assert!(!targets.would_enable("lambda_runtime::layers", &Level::DEBUG));
            assert!(!targets.would_enable("aws_smithy_runtime::client", &Level::TRACE));
            assert!(targets.would_enable("lambda_runtime", &Level::ERROR));
            assert!(targets.would_enable("writer_fn", &Level::DEBUG));
        }
        assert!(!targets(LevelFilter::ERROR).would_enable("lambda_runtime", &Level::INFO));
    }
}
