//! Errors with their causes, as one line of text.

use std::{error::Error, fmt::Write as _};

/// Returns an error and its sources, separated by colons.
pub fn chain(error: &dyn Error) -> String {
    let mut line = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let _ = write!(line, ": {error}");
        source = error.source();
    }
    line
}
