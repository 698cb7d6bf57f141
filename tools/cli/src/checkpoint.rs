//! How far a long command has come, in a file: a run that was killed goes on from there.

use std::{
    io::Write as _,
    path::{Path, PathBuf},
};

use serde::{Serialize, de::DeserializeOwned};
use tokio::time::Instant;

use crate::error::CliError;

/// A state can be large, so writing it takes no more than one part in so many of the time.
const SHARE: u32 = 20;

/// The file, where one is wanted.
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

    /// What an earlier run left there.
    pub(crate) fn load<T: DeserializeOwned>(&self) -> Result<Option<T>, CliError> {
        let Some(path) = &self.path else { return Ok(None) };
        let name = path.display().to_string();
        match std::fs::read_to_string(path) {
            Ok(text) => {
                let state = serde_json::from_str(&text);
                state.map(Some).map_err(|error| CliError::usage(&name, error))
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(CliError::usage(&name, error)),
        }
    }

    /// Writes the state, unless that took long and was done just before: the file holds this state or the one before, never half of one.
    pub(crate) fn save<T: Serialize>(&mut self, state: &T) -> Result<(), CliError> {
        let Some(path) = &self.path else { return Ok(()) };
        let began = Instant::now();
        if self.not_before.is_some_and(|not_before| began < not_before) {
            self.is_behind = true;
            return Ok(());
        }
        let folder = path.parent().filter(|folder| *folder != Path::new(""));
        let mut file = tempfile::NamedTempFile::new_in(folder.unwrap_or(Path::new(".")))?;
        serde_json::to_writer(&mut file, state).map_err(std::io::Error::from)?;
        file.flush()?;
        file.as_file().sync_data()?;
        file.persist(path).map_err(|error| error.error)?;
        self.is_behind = false;
        self.not_before = Some(Instant::now() + began.elapsed() * SHARE);
        Ok(())
    }

    /// When a state that was not written can be.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.not_before.filter(|_| self.is_behind)
    }

    /// Takes the file away: there is nothing to go on with.
    pub(crate) fn remove(&self) -> Result<(), CliError> {
        match self.path.as_ref().map(std::fs::remove_file) {
            Some(Err(error)) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        }
    }
}
