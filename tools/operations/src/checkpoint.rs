//! State of a long run in a file, from which an interrupted run resumes.

use std::{
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use serde::{Serialize, de::DeserializeOwned};

use crate::error::OperationError;

/// A checkpoint file. Without a path, nothing is stored.
pub(crate) struct Checkpoint(pub(crate) Option<PathBuf>);

impl Checkpoint {
    pub(crate) fn load<T: DeserializeOwned>(&self) -> Result<Option<T>, OperationError> {
        let Some(path) = &self.0 else { return Ok(None) };
        let read = std::fs::read_to_string(path).and_then(|text| Ok(serde_json::from_str(&text)?));
        match read {
            Ok(state) => Ok(Some(state)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(OperationError::Checkpoint {
                path: path.clone(),
                source,
            }),
        }
    }

    /// Writes the state atomically.
    pub(crate) fn save<T: Serialize>(&self, state: &T) -> Result<(), OperationError> {
        let Some(path) = &self.0 else { return Ok(()) };
        write(path, state).map_err(OperationError::SaveCheckpoint)
    }

    pub(crate) fn remove(&self) -> Result<(), OperationError> {
        match self.0.as_ref().map(std::fs::remove_file) {
            Some(Err(error)) if error.kind() != io::ErrorKind::NotFound => Err(OperationError::SaveCheckpoint(error)),
            _ => Ok(()),
        }
    }
}

fn write<T: Serialize>(path: &Path, state: &T) -> io::Result<()> {
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    let mut file = tempfile::NamedTempFile::new_in(folder.unwrap_or(Path::new(".")))?;
    serde_json::to_writer(&mut file, state)?;
    file.flush()?;
    file.as_file().sync_data()?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}
