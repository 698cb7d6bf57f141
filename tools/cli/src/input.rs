//! Files that a command reads, or standard input.

use std::{
    io::{self, Read as _},
    path::Path,
};

use crate::error::CliError;

/// Reads a file, or standard input if its name is `-`.
pub(crate) fn bytes_of(path: &Path) -> Result<Vec<u8>, CliError> {
    let read = match path == Path::new("-") {
        true => {
            let mut bytes = Vec::new();
            io::stdin().read_to_end(&mut bytes).map(|_| bytes)
        }
        false => std::fs::read(path),
    };
    read.map_err(|error| CliError::usage(&path.display().to_string(), error))
}

/// Reads the text of a file, or of standard input.
pub(crate) fn text_of(path: &Path) -> Result<String, CliError> {
    String::from_utf8(bytes_of(path)?).map_err(|error| CliError::usage(&path.display().to_string(), error))
}
