//! Shows the progress of a run on standard error.

use std::io::IsTerminal as _;

use indicatif::{ProgressBar, ProgressStyle};

use crate::output::print_error;

/// A progress bar on a terminal, otherwise plain lines.
#[derive(Debug)]
pub(crate) struct Progress(Option<ProgressBar>);

impl Progress {
    pub(crate) fn new(comparisons: usize) -> Self {
        if !std::io::stderr().is_terminal() {
            return Self(None);
        }
        let style = ProgressStyle::with_template("{spinner} {pos}/{len} {wide_msg} {elapsed}");
        let bar =
            ProgressBar::new(comparisons as u64).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.enable_steady_tick(std::time::Duration::from_millis(100));
        Self(Some(bar))
    }

    pub(crate) fn show(&self, step: &str) {
        match &self.0 {
            Some(bar) => bar.set_message(step.to_owned()),
            None => print_error(step),
        }
    }

    /// Counts a finished comparison.
    pub(crate) fn advance(&self) {
        if let Some(bar) = &self.0 {
            bar.inc(1);
        }
    }

    /// Prints a note, which stays visible above the progress bar.
    pub(crate) fn note(&self, text: &str) {
        let note = format!("note: {text}");
        match &self.0 {
            Some(bar) => bar.println(note),
            None => print_error(&note),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}
