//! Progress of long operations, on standard error.

use std::sync::atomic::{AtomicU64, Ordering};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressFinish, ProgressStyle};
use operations::progress::Progress;

use crate::output;

/// Without a terminal, a counter prints a line for each of so many things.
const PER_LINE: u64 = 1000;

/// A bar for the items of a table, or a counter of things. A bar is only visible on a terminal.
pub(crate) struct Bar {
    drawn: ProgressBar,
    /// Name of the counted things, and the count at which the counter appears.
    counted: Option<(&'static str, u64)>,
    lines: AtomicU64,
}

impl Bar {
    /// Returns a bar for about this many items, or 0 if their number is not known.
    pub(crate) fn new(items: u64) -> Self {
        Self::of(Some(items), "{wide_bar} {human_pos} items{msg}, {elapsed}", None)
    }

    /// Returns a counter that shows its progress only from this number of things.
    pub(crate) fn counter(things: &'static str, first: u64) -> Self {
        Self::of(None, "{spinner} {msg}", Some((things, first)))
    }

    fn of(items: Option<u64>, shown: &str, counted: Option<(&'static str, u64)>) -> Self {
        let bar = ProgressBar::with_draw_target(items.filter(|items| *items > 0), ProgressDrawTarget::stderr());
        bar.set_style(ProgressStyle::with_template(shown).unwrap_or_else(|_| ProgressStyle::default_bar()));
        Self {
            drawn: bar.with_finish(ProgressFinish::AndClear),
            counted,
            lines: AtomicU64::new(0),
        }
    }

    pub(crate) fn set(&self, items: u64, note: String) {
        // DynamoDB updates the item count of a table about every six hours.
        if self.drawn.length().is_some_and(|length| length < items) {
            self.drawn.set_length(items);
        }
        self.drawn.set_position(items);
        self.drawn.set_message(note);
    }

    /// Hides the bar while the closure prints.
    pub(crate) fn suspend<T>(&self, print: impl FnOnce() -> T) -> T {
        self.drawn.suspend(print)
    }
}

impl Progress for Bar {
    fn at(&self, count: u64) {
        let Some((things, first)) = self.counted else {
            return self.set(count, String::new());
        };
        let (line, lines) = (format!("{count} {things}"), count / PER_LINE);
        if count >= first && !self.drawn.is_hidden() {
            self.drawn.set_message(line);
            self.drawn.tick();
        } else if count >= first && lines > self.lines.swap(lines, Ordering::Relaxed) {
            output::status(&line);
        }
    }

    fn note(&self, note: &str) {
        self.suspend(|| output::note(note));
    }
}
