//! How far a run has come, on standard error.

use std::io::{IsTerminal as _, Write as _};

use indicatif::{ProgressBar, ProgressStyle};

/// A line that moves on a terminal, and plain lines elsewhere.
#[derive(Debug)]
pub(crate) struct Progress(Option<ProgressBar>);

impl Progress {
    pub(crate) fn new(comparisons: u64) -> Self {
        if !std::io::stderr().is_terminal() {
            return Self(None);
        }
        let style = ProgressStyle::with_template("{spinner} {pos}/{len} {wide_msg} {elapsed}");
        let bar = ProgressBar::new(comparisons).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.enable_steady_tick(std::time::Duration::from_millis(100));
        Self(Some(bar))
    }

    /// What is done now.
    pub(crate) fn doing(&self, what: &str) {
        match &self.0 {
            Some(bar) => bar.set_message(what.to_owned()),
            None => {
                let _ = writeln!(std::io::stderr(), "{what}");
            }
        }
    }

    /// A comparison is over.
    pub(crate) fn advance(&self) {
        if let Some(bar) = &self.0 {
            bar.inc(1);
        }
    }

    /// Something to keep in sight.
    pub(crate) fn note(&self, what: &str) {
        match &self.0 {
            Some(bar) => bar.println(format!("note: {what}")),
            None => {
                let _ = writeln!(std::io::stderr(), "note: {what}");
            }
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
