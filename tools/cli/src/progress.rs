//! A bar on standard error, where that is a terminal.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

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
