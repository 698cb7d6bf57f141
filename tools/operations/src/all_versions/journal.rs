//! Rows of a search that can be resumed: a file beside that of the state.
//!
//! ```text
//! state       state of the segments, replaced after each step
//! state.rows  {"Start": …}, then a row in each line; those of a step are written before the state has it
//! ```
//!
//! The step of a kill is repeated, so that its rows can be there twice. The files are deleted when the rows were used.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, BufRead as _, BufReader, Seek as _, Write as _},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::{completeness::OldestRecord, row::VersionRow};
use crate::error::OperationError;

/// What a resumed run has from the first one.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Beginning {
    /// Time of the start.
    pub start: String,
    pub failures: Option<OldestRecord>,
}

/// File of rows. Its methods return [`OperationError::Checkpoint`] if it cannot be read or written.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
}

impl Journal {
    /// Opens the file of an earlier run, and returns what that began with. Without the state of one, it begins again.
    pub fn open(state: &Path) -> Result<(Self, Option<Beginning>), OperationError> {
        let mut path = state.as_os_str().to_owned();
        path.push(".rows");
        let path = PathBuf::from(path);
        let open = || -> io::Result<_> {
            let mut options = OpenOptions::new();
            options.read(true).write(true);
            if !state.exists() {
                return Ok((options.create(true).truncate(true).open(&path)?, None));
            }
            let file = options.open(&path)?;
            let (mut reader, mut line, mut length) = (BufReader::new(file), Vec::new(), 0);
            reader.read_until(b'\n', &mut line)?;
            let beginning = serde_json::from_slice(&line)?;
            // A kill can have left an incomplete line.
            while line.last() == Some(&b'\n') {
                length += line.len() as u64;
                line.clear();
                reader.read_until(b'\n', &mut line)?;
            }
            let mut file = reader.into_inner();
            file.set_len(length)?;
            file.seek(io::SeekFrom::End(0))?;
            Ok((file, Some(beginning)))
        };
        let (file, beginning) = open().map_err(|error| failed(&path, error))?;
        Ok((Self { path, file }, beginning))
    }

    /// Adds the beginning, or the rows of a step.
    pub fn add(&mut self, values: &[impl Serialize]) -> Result<(), OperationError> {
        let mut write = || {
            let mut lines = Vec::new();
            for value in values {
                serde_json::to_writer(&mut lines, value)?;
                lines.push(b'\n');
            }
            self.file.write_all(&lines)?;
            self.file.sync_data()
        };
        write().map_err(|error| failed(&self.path, error))
    }

    /// Returns all rows, in no order.
    pub fn rows(&mut self) -> Result<impl Iterator<Item = Result<VersionRow, OperationError>>, OperationError> {
        self.file.rewind().map_err(|error| failed(&self.path, error))?;
        let row = |line: io::Result<String>| -> io::Result<_> { Ok(serde_json::from_str(&line?)?) };
        let (path, lines) = (&self.path, BufReader::new(&self.file).lines().skip(1));
        Ok(lines.map(move |line| row(line).map_err(|error| failed(path, error))))
    }

    pub fn remove(self) -> Result<(), OperationError> {
        fs::remove_file(&self.path).map_err(|error| failed(&self.path, error))
    }
}

fn failed(path: &Path, source: io::Error) -> OperationError {
    let path = path.to_owned();
    OperationError::Checkpoint { path, source }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_torn_line_is_left_out_and_the_beginning_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state.json");
        let row = |number: u64| {
            let row = json!({"entity": format!("E{number}"), "version": number, "actor_unchanged": false});
            serde_json::from_value::<VersionRow>(row).unwrap()
        };
        for start in ["one", "two"] {
            // Without a state, the run begins again.
            let (mut journal, beginning) = Journal::open(&state).unwrap();
            assert!(beginning.is_none());
            let (start, failures) = (start.to_owned(), None);
            journal.add(&[Beginning { start, failures }]).unwrap();
            journal.add(&[row(1), row(2)]).unwrap();
            journal.file.write_all(b"{\"recorded_at\"").unwrap();
        }
        fs::write(&state, "{}").unwrap();
        let (mut journal, beginning) = Journal::open(&state).unwrap();
        assert_eq!(beginning.unwrap().start, "two");
        journal.add(&[row(3)]).unwrap();
        let entities: Vec<_> = journal.rows().unwrap().map(|row| row.unwrap().entity).collect();
        assert_eq!(entities, ["E1", "E2", "E3"]);
        journal.remove().unwrap();
        assert!(Journal::open(&state).is_err());
    }
}
