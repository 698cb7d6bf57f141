//! Documents in files.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use crate::error::CliError;

/// No document is larger: an invocation's payload has 6 MB at most.
pub(crate) const MAX_BYTES: u64 = 64 * 1024 * 1024;

/// A file itself, or every file below a folder, in the order of their names.
pub(crate) fn files(path: &Path) -> Result<Vec<PathBuf>, CliError> {
    let read = |error| CliError::file(path, &error);
    if fs::metadata(path).map_err(read)?.is_file() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    let mut folders = vec![path.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).map_err(read)? {
            let entry = entry.map_err(read)?;
            // A link is followed to a file, and to no folder: it could lead around in circles.
            if entry.file_type().map_err(read)?.is_dir() {
                folders.push(entry.path());
            } else if fs::metadata(entry.path()).is_ok_and(|file| file.is_file()) {
                files.push(entry.path());
            }
        }
    }
    files.sort();
    Ok(files)
}

/// What is in a file.
pub(crate) fn read(path: &Path) -> Result<Content, CliError> {
    let read = || match fs::metadata(path)?.len() > MAX_BYTES {
        true => Ok(Content::Other("it is too large for a document")),
        false => fs::read(path).map(Content::of),
    };
    read().map_err(|error| CliError::file(path, &error))
}

/// What a file or an object holds.
pub(crate) enum Content {
    /// A text.
    Text(String),
    /// Nothing that can be a document, and why.
    Other(&'static str),
}

impl Content {
    pub(crate) fn of(bytes: Vec<u8>) -> Self {
        match String::from_utf8(bytes) {
            Ok(text) => Self::Text(text),
            Err(_) => Self::Other("it is no text"),
        }
    }
}

impl CliError {
    fn file(path: &Path, error: &io::Error) -> Self {
        let said = format!("{}: {error}", path.display());
        match error.kind() {
            io::ErrorKind::NotFound => Self::NotFound(said),
            _ => Self::Unavailable(said),
        }
    }
}
