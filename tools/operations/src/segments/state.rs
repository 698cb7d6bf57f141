//! State of a run in a file, from which an interrupted run resumes.

use std::{
    fs,
    io::{self, Write as _},
    path::Path,
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::{error::OperationError, rate_limit::Consumed};

/// Identity of a run. A run resumes only from a file with the same identity.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Identity {
    pub(super) command: String,
    pub(super) table: String,
    pub(super) version_digits: String,
    pub(super) options: Value,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct State<P> {
    pub(super) run: Identity,
    /// Progress of each segment.
    pub(super) segments: Vec<P>,
    pub(super) consumed: Consumed,
}

impl<P: Serialize + DeserializeOwned> State<P> {
    /// Reads the state of a run in this number of segments, `None` for any. `None` if there is no file.
    pub(super) fn load(path: &Path, run: &Identity, segments: Option<u32>) -> Result<Option<Self>, OperationError> {
        let unreadable = |source| OperationError::Checkpoint {
            path: path.to_owned(),
            source,
        };
        let text = match fs::read_to_string(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            text => text.map_err(unreadable)?,
        };
        let parsed = |error: serde_json::Error| unreadable(error.into());
        // The progress of another command has other members.
        let stored: State<Value> = serde_json::from_str(&text).map_err(parsed)?;
        let number = stored.segments.len();
        if stored.run != *run || segments.is_some_and(|wanted| wanted as usize != number) {
            let is_same = stored.run.options == run.options;
            let (Identity { command, table, .. }, options) =
                (stored.run, if is_same { "" } else { " and other options" });
            return Err(OperationError::Invalid(format!(
                "the checkpoint belongs to another run: {command} of {table} with {number} segments{options}"
            )));
        }
        let segments = stored.segments.into_iter().map(serde_json::from_value);
        Ok(Some(Self {
            run: stored.run,
            segments: segments.collect::<Result<_, _>>().map_err(parsed)?,
            consumed: stored.consumed,
        }))
    }

    /// Writes the state atomically.
    pub(super) fn save(&self, path: &Path) -> io::Result<()> {
        let folder = path.parent().filter(|folder| *folder != Path::new(""));
        let mut file = tempfile::NamedTempFile::new_in(folder.unwrap_or(Path::new(".")))?;
        serde_json::to_writer(&mut file, self)?;
        file.flush()?;
        file.as_file().sync_data()?;
        file.persist(path).map_err(|error| error.error)?;
        Ok(())
    }
}
