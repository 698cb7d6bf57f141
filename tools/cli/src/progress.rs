//! How far long work has come, on standard error.

use std::{
    io::{self, IsTerminal as _, Write as _},
    sync::atomic::{AtomicU64, Ordering},
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar, where that is a terminal.
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// Of about so many items, 0 where that is not known.
    pub(crate) fn new(items: u64) -> Self {
        let bar = ProgressBar::with_draw_target(Some(items).filter(|items| *items > 0), ProgressDrawTarget::stderr());
        let shown = "{wide_bar} {human_pos} items{msg}, {elapsed}";
        bar.set_style(ProgressStyle::with_template(shown).unwrap_or_else(|_| ProgressStyle::default_bar()));
        Self(bar)
    }

    pub(crate) fn set(&self, items: u64, note: String) {
        // The count of a table is some hours old.
        if self.0.length().is_some_and(|length| length < items) {
            self.0.set_length(items);
        }
        self.0.set_position(items);
        self.0.set_message(note);
    }

    /// Says something without the bar in its way.
    pub(crate) fn around<T>(&self, say: impl FnOnce() -> T) -> T {
        self.0.suspend(say)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// A line that moves on a terminal, and few lines elsewhere.
pub(crate) struct Count {
    what: &'static str,
    is_silent: bool,
    bar: Option<ProgressBar>,
    /// How many lines were due so far.
    lines: AtomicU64,
}

impl Count {
    /// Elsewhere than on a terminal, a line is written for so many things.
    const A_LINE: u64 = 1000;

    pub(crate) fn new(what: &'static str) -> Self {
        let bar = io::stderr().is_terminal().then(ProgressBar::new_spinner);
        Self {
            what,
            is_silent: false,
            bar,
            lines: AtomicU64::new(0),
        }
    }

    /// One that says nothing: there is nobody at the terminal who asked.
    pub(crate) fn silent() -> Self {
        Self {
            what: "",
            is_silent: true,
            bar: None,
            lines: AtomicU64::new(0),
        }
    }

    pub(crate) fn is_silent(&self) -> bool {
        self.is_silent
    }

    /// So many are done.
    pub(crate) fn at(&self, count: u64) {
        if self.is_silent {
            return;
        }
        let line = format!("{count} {}", self.what);
        if let Some(bar) = &self.bar {
            bar.set_message(line);
            bar.tick();
            return;
        }
        let lines = count / Self::A_LINE;
        if lines > self.lines.swap(lines, Ordering::Relaxed) {
            let _ = writeln!(io::stderr(), "{line}");
        }
    }
}

impl Drop for Count {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
