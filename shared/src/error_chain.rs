//! Errors with their causes, as one line of text, and names of variants.

use std::{
    error::Error,
    fmt::{Debug, Write as _},
};

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

/// Returns the name of a value's variant.
pub fn variant(value: &impl Debug) -> String {
    let text = format!("{value:?}");
    let name = text.split(|c: char| !c.is_alphanumeric()).next();
    name.unwrap_or_default().to_owned()
}
