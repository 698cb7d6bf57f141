//! State of a long run in a file, from which an interrupted run resumes.

use std::{
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use serde::{Serialize, de::DeserializeOwned};
use tokio::time::Instant;

use crate::error::OperationError;

/// A state can be large: writing it takes at most 1/20 of the time.
const TIME_SHARE: u32 = 20;

/// A checkpoint file. Without a path, nothing is stored.
pub(crate) struct Checkpoint {
    path: Option<PathBuf>,
    not_before: Option<Instant>,
    is_behind: bool,
}

impl Checkpoint {
    pub(crate) fn new(path: Option<&Path>) -> Self {
        Self {
            path: path.map(Path::to_owned),
            not_before: None,
            is_behind: false,
        }
    }

    pub(crate) fn load<T: DeserializeOwned>(&self) -> Result<Option<T>, OperationError> {
        let Some(path) = &self.path else { return Ok(None) };
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

    /// Writes the state atomically, or defers it if the last write was recent and slow.
    pub(crate) fn save<T: Serialize>(&mut self, state: &T) -> Result<(), OperationError> {
        let began = Instant::now();
        if self.not_before.is_some_and(|not_before| began < not_before) {
            self.is_behind = true;
            return Ok(());
        }
        self.save_now(state)
    }

    /// Writes the state if that was deferred.
    pub(crate) fn save_deferred<T: Serialize>(&mut self, state: &T) -> Result<(), OperationError> {
        if self.is_behind { self.save_now(state) } else { Ok(()) }
    }

    fn save_now<T: Serialize>(&mut self, state: &T) -> Result<(), OperationError> {
        let Some(path) = &self.path else { return Ok(()) };
        let began = Instant::now();
        write(path, state).map_err(OperationError::SaveCheckpoint)?;
        self.is_behind = false;
        self.not_before = Some(Instant::now() + began.elapsed() * TIME_SHARE);
        Ok(())
    }

    /// Returns when a deferred state can be written.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.not_before.filter(|_| self.is_behind)
    }

    pub(crate) fn remove(&self) -> Result<(), OperationError> {
        match self.path.as_ref().map(std::fs::remove_file) {
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
