//! Log lines: one JSON object each, on standard output, where Lambda collects them.

use std::{error::Error, fmt::Write as _};

use tracing::level_filters::LevelFilter;
use tracing_subscriber::{filter::Targets, layer::SubscriberExt as _, util::SubscriberInitExt as _};

use crate::config;

/// Sets up logging for a function. The level is that of Lambda's logging controls, `INFO` without one.
///
/// What libraries say below `INFO` is left out at every level: the runtime and the SDK print payloads there, and
/// payloads hold attribute values.
pub fn init() {
    let level = config::log_level().and_then(|level| level.parse().ok());
    let format = tracing_subscriber::fmt::layer()
        .json()
        .flatten_event(true)
        .with_current_span(true)
        .with_span_list(false);
    // A second call, in a process that hosts both functions, changes nothing.
    let _ = tracing_subscriber::registry()
        .with(targets(level.unwrap_or(LevelFilter::INFO)))
        .with(format)
        .try_init();
}

/// An error and its causes, in one line.
pub fn chain(error: &dyn Error) -> String {
    let mut line = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let _ = write!(line, ": {error}");
        source = error.source();
    }
    line
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
    use tracing::Level;

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
