//! Lines on the standard output and the standard error. A closed stream is no error.

use std::io::{self, Write as _};

pub(crate) fn print_error(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

pub(crate) fn print(text: &str) {
    let _ = writeln!(io::stdout(), "{text}");
}
