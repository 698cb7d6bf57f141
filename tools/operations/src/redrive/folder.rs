//! Failure documents in files.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::error::OperationError;

/// Maximum size of a document. The payload of an invocation has at most 6 MB.
pub(super) const MAX_BYTES: u64 = 64 * 1024 * 1024;

/// Returns the file itself, or every file below the folder, sorted by name.
pub(super) fn files(path: &Path) -> Result<Vec<PathBuf>, OperationError> {
    let read = |error| file_error(path, error);
    if fs::metadata(path).map_err(read)?.is_file() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    let mut folders = vec![path.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).map_err(read)? {
            let entry = entry.map_err(read)?;
            // Links to folders are not followed: they can form a cycle.
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

pub(super) fn read(path: &Path) -> Result<Content, OperationError> {
    let read = || match fs::metadata(path)?.len() > MAX_BYTES {
        true => Ok(Content::Other("it is too large for a document")),
        false => fs::read(path).map(Content::of),
    };
    read().map_err(|error| file_error(path, error))
}

pub(super) enum Content {
    Text(String),
    /// Reason why the content cannot be a document.
    Other(&'static str),
}

impl Content {
    pub(super) fn of(bytes: Vec<u8>) -> Self {
        match String::from_utf8(bytes) {
            Ok(text) => Self::Text(text),
            Err(_) => Self::Other("it is no text"),
        }
    }
}

fn file_error(path: &Path, source: std::io::Error) -> OperationError {
    OperationError::File {
        path: path.to_owned(),
        source,
    }
}
