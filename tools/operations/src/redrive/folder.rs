//! Failure documents in files.

use std::{
    fs,
    io::Read as _,
    path::{Path, PathBuf},
};

use crate::error::OperationError;

/// Maximum size of a document, in bytes. The payload of an invocation has at most 6 MB, and more as a JSON string.
pub(super) const MAX_BYTES: u64 = 32 * 1024 * 1024;

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
    let read = || {
        let (mut bytes, mut file) = (Vec::new(), fs::File::open(path)?.take(MAX_BYTES + 1));
        file.read_to_end(&mut bytes)?;
        Ok(Content::of(bytes))
    };
    read().map_err(|error| file_error(path, error))
}

pub(super) enum Content {
    Text(String),
    /// Reason why the content cannot be a document.
    Other(&'static str),
}

impl Content {
    pub(super) const TOO_LARGE: Self = Self::Other("it is too large for a document");

    pub(super) fn of(bytes: Vec<u8>) -> Self {
        if bytes.len() as u64 > MAX_BYTES {
            return Self::TOO_LARGE;
        }
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
