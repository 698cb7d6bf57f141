//! Logs: one JSON object per line on standard output, which Lambda sends to CloudWatch Logs.
//!
//! A line has at most [`MAX_LINE_BYTES`], although an event can contain ids of any length: an alarm counts lines by their
//! members, and CloudWatch Logs does not accept a line above 1 MB as a whole. In a line that would be longer, each text is
//! [shortened](printable::shortened). Hidden characters are escaped.

use std::{
    borrow::Cow,
    io::{self, Write},
};

use serde_json::{Value, json};
use tracing::{Level, Metadata, level_filters::LevelFilter};
use tracing_subscriber::{
    Layer as _,
    filter::{Targets, filter_fn},
    layer::SubscriberExt as _,
    util::SubscriberInitExt as _,
};

pub use crate::error_chain::{chain, variant};

use crate::{config, json, panics, printable};

/// Maximum length of a line in bytes, with its line feed.
pub const MAX_LINE_BYTES: usize = 4096;
/// Maximum numbers of characters of a text in a line that would be longer: the first that makes it fit.
const TEXT_LENGTHS: [usize; 3] = [printable::MAX_CHARACTERS, 32, 8];

/// Sets up logging for a function. The level is `LOG_LEVEL`, `WARN` by default. Lambda's own filter has to pass all lines, since it
/// [assigns](https://docs.aws.amazon.com/lambda/latest/dg/monitoring-cloudwatchlogs-log-level.html) `INFO` to a line without a level,
/// such as those of metrics.
///
/// Libraries never log below `INFO`: the runtime and the SDK log payloads there, which hold attribute values.
pub fn init() {
    let level = config::log_level().and_then(|level| level.parse().ok());
    let lines = lines(level.unwrap_or(LevelFilter::WARN));
    let format = tracing_subscriber::fmt::layer()
        .json()
        .flatten_event(true)
        .with_current_span(true)
        .with_span_list(false)
        .with_writer(|| Bounded(io::stdout()))
        .with_filter(filter_fn(lines));
    // A second call, in a process that hosts both functions, changes nothing.
    let _ = tracing_subscriber::registry().with(format).try_init();
    panics::log();
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

/// Writes each line, which the format passes as a whole, with a bounded length and without hidden characters.
struct Bounded<W>(W);

impl<W: Write> Write for Bounded<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        match std::str::from_utf8(line) {
            Ok(text) => self.0.write_all(bounded(text).as_bytes())?,
            Err(_) => self.0.write_all(line)?,
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

fn bounded(line: &str) -> Cow<'_, str> {
    let shown = printable::json(line);
    if shown.len() <= MAX_LINE_BYTES {
        return shown;
    }
    let parsed = json::parse(line).unwrap_or_default();
    let shorter = TEXT_LENGTHS.into_iter().map(|max| {
        let line = format!("{}\n", shortened(&parsed, max));
        printable::json(&line).into_owned()
    });
    let fits = shorter.into_iter().find(|line| line.len() <= MAX_LINE_BYTES);
    // Cannot happen: a line has a few members with fixed names.
    let left_out = || json!({"level": "ERROR", "message": "a log line was left out", "bytes": line.len()});
    fits.unwrap_or_else(|| format!("{}\n", left_out())).into()
}

fn shortened(value: &Value, max: usize) -> Value {
    match value {
        Value::String(text) => printable::shortened_to(text, max).into(),
        Value::Object(members) => members
            .iter()
            .map(|(name, member)| (name.clone(), shortened(member, max)))
            .collect(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(line: &str) -> String {
        let mut written = Vec::new();
        Bounded(&mut written).write_all(line.as_bytes()).unwrap();
        String::from_utf8(written).unwrap()
    }

    #[test]
    fn a_line_is_bounded_and_stays_json() {
        let id = |length| "\u{0}".repeat(length);
        let line = |length| {
            let line = json!({"level": "WARN", "message_id": id(length), "error": id(length), "span": {"requestId": id(length)}});
            format!("{line}\n")
        };
        assert_eq!(written(&line(100)), line(100));
        for length in [1_000, 1_000_000] {
            let written = written(&line(length));
            assert!(
                written.len() <= MAX_LINE_BYTES && written.ends_with("}\n"),
                "{}",
                written.len()
            );
            let parsed: Value = serde_json::from_str(&written).unwrap();
            let expected = format!("{}… ({length} characters)", id(128));
            for value in [&parsed["message_id"], &parsed["error"], &parsed["span"]["requestId"]] {
                assert_eq!(value, &expected);
            }
            assert_eq!(parsed["level"], "WARN");
        }
        let members = |count| {
            let members = (0..count).map(|number: usize| (number.to_string(), id(1000)));
            format!("{}\n", members.collect::<Value>())
        };
        for count in [10, 30, 10_000] {
            let written = written(&members(count));
            assert!(written.len() <= MAX_LINE_BYTES, "{}", written.len());
            assert!(serde_json::from_str::<Value>(&written).unwrap().is_object());
        }
        // Not shortened below the limit.
        let long = format!("{}\n", json!({"requests": "r".repeat(4000)}));
        assert_eq!(written(&long), long);
    }

    #[test]
    fn hidden_characters_in_a_line_are_escaped() {
        let line = format!("{}\n", json!({"error": "a\u{7f}\u{9b}\u{2028}\u{202e}b"}));
        let shown = written(&line);
        assert_eq!(shown, "{\"error\":\"a\\u007f\\u009b\\u2028\\u202eb\"}\n");
        assert_eq!(
            serde_json::from_str::<Value>(&shown).unwrap(),
            serde_json::from_str::<Value>(&line).unwrap()
        );
    }

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
