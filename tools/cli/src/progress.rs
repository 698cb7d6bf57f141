//! Progress of long operations, on standard error.

use std::{
    io::{self, IsTerminal as _},
    sync::atomic::{AtomicU64, Ordering},
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressFinish, ProgressStyle};
use operations::progress::Progress;

use crate::output;

/// A progress bar. It is only visible on a terminal.
pub(crate) struct Bar(ProgressBar);

impl Bar {
    /// Returns a bar for about this many items, or 0 if their number is not known.
    pub(crate) fn new(items: u64) -> Self {
        let bar = ProgressBar::with_draw_target(Some(items).filter(|items| *items > 0), ProgressDrawTarget::stderr());
        let shown = "{wide_bar} {human_pos} items{msg}, {elapsed}";
        bar.set_style(ProgressStyle::with_template(shown).unwrap_or_else(|_| ProgressStyle::default_bar()));
        Self(bar.with_finish(ProgressFinish::AndClear))
    }

    pub(crate) fn set(&self, items: u64, note: String) {
        // DynamoDB updates the item count of a table about every six hours.
        if self.0.length().is_some_and(|length| length < items) {
            self.0.set_length(items);
        }
        self.0.set_position(items);
        self.0.set_message(note);
    }

    /// Hides the bar while the closure prints.
    pub(crate) fn suspend<T>(&self, print: impl FnOnce() -> T) -> T {
        self.0.suspend(print)
    }
}

impl Progress for Bar {
    fn at(&self, count: u64) {
        self.set(count, String::new());
    }

    fn note(&self, note: &str) {
        self.suspend(|| output::note(note));
    }
}

/// A counter: a spinner on a terminal, a line for each 1000 things otherwise.
pub(crate) struct Counter {
    things: &'static str,
    /// Number of things from which progress is shown.
    first: u64,
    spinner: Option<ProgressBar>,
    lines: AtomicU64,
}

impl Counter {
    const PER_LINE: u64 = 1000;

    pub(crate) fn new(things: &'static str) -> Self {
        Self::from(things, 0)
    }

    /// Returns a counter that shows its progress only from this number of things.
    pub(crate) fn from(things: &'static str, first: u64) -> Self {
        let spinner = || ProgressBar::new_spinner().with_finish(ProgressFinish::AndClear);
        Self {
            things,
            first,
            spinner: io::stderr().is_terminal().then(spinner),
            lines: AtomicU64::new(0),
        }
    }
}

impl Progress for Counter {
    fn at(&self, count: u64) {
        let (line, lines) = (format!("{count} {}", self.things), count / Self::PER_LINE);
        match &self.spinner {
            _ if count < self.first => {}
            Some(spinner) => {
                spinner.set_message(line);
                spinner.tick();
            }
            None if lines > self.lines.swap(lines, Ordering::Relaxed) => output::status(&line),
            None => {}
        }
    }

    fn note(&self, note: &str) {
        output::note(note);
    }
}
