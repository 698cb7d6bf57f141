//! Progress of the stack on standard output: a `status` line when a figure changes, and an `error` line for each new error of a
//! function, at most once a second. A `summary` line ends the output of `--once`.

use std::{convert::Infallible, io, time::Duration};

use terminal::write_line;
use tokio::time::{MissedTickBehavior, interval};

use super::activity::Figures;
use crate::stack::Stack;

const INTERVAL: Duration = Duration::from_secs(1);

/// Prints the progress. Write errors are ignored.
pub async fn print(stack: &Stack) -> Infallible {
    let (mut shown, mut error) = (line(stack, &stack.activity.figures()), None);
    let mut ticks = interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let figures = stack.activity.figures();
        let now = line(stack, &figures);
        if now != shown {
            let _ = write_line(&mut io::stdout(), &format!("status {now}"));
            shown = now;
        }
        if let Some(text) = figures.error.as_ref().filter(|_| figures.error != error) {
            let _ = write_line(&mut io::stdout(), &format!("error {text}"));
            error = figures.error;
        }
    }
}

pub fn print_summary(stack: &Stack) {
    let summary = format!("summary {}", line(stack, &stack.activity.figures()));
    let _ = write_line(&mut io::stdout(), &summary);
}

/// Returns the figures as `name=value` pairs, separated by spaces.
fn line(stack: &Stack, figures: &Figures) -> String {
    let counts = stack.mapping.counters.get();
    let [quarantined, released] = stack.mapping.source.quarantined();
    format!(
        "updates={} refused={} versions={} waiting={} batches={} retries={} bisections={} quarantined={} failures={} dropped={} result={:?}",
        figures.updates,
        figures.refused,
        counts.done.saturating_sub(quarantined),
        counts.waiting(),
        counts.invocations,
        counts.retries,
        counts.bisections,
        quarantined.saturating_sub(released),
        counts.documents,
        counts.dropped,
        counts.result,
    )
}
