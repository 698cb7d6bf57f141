//! Entities that are to be undone, in a temporary file, so that memory does not grow with their number. The file has no name: the
//! operating system deletes it when it is closed.

use std::{
    fs::File,
    io::{self, BufRead as _, BufReader, BufWriter, Seek as _, Write as _},
};

use serde::{Deserialize, Serialize};
use shared::domain::{entity::EntityId, version::Version};

use super::plan::EntityPlan;
use crate::error::OperationError;

/// Entity that is to be undone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Planned {
    pub entity: EntityId,
    /// First version of the plan: no older one is selected.
    pub first: Option<Version>,
    /// The plan's newest and selected versions, if only that may be carried out.
    pub seen: Option<(Version, Vec<Version>)>,
}

impl Planned {
    /// Returns the entity of a plan, which can be planned again.
    pub fn again(plan: &EntityPlan) -> Self {
        Self {
            entity: plan.entity.clone(),
            first: plan.versions.first().copied(),
            seen: None,
        }
    }
}

/// Line of the file.
#[derive(Serialize, Deserialize)]
struct Line(String, Option<Version>, Option<(Version, Vec<Version>)>);

/// Entities in the order in which they were added.
pub struct PlannedFile {
    file: BufWriter<File>,
    /// Number of entities.
    pub entities: u64,
}

impl PlannedFile {
    /// # Errors
    ///
    /// Returns [`OperationError::TemporaryFile`] if the file cannot be created.
    pub fn create() -> Result<Self, OperationError> {
        let file = tempfile::tempfile().map_err(OperationError::TemporaryFile)?;
        Ok(Self {
            file: BufWriter::new(file),
            entities: 0,
        })
    }

    /// Adds an entity.
    ///
    /// # Errors
    ///
    /// Returns [`OperationError::TemporaryFile`] if the file cannot be written.
    pub fn push(&mut self, planned: Planned) -> Result<(), OperationError> {
        let line = Line(planned.entity.as_str().to_owned(), planned.first, planned.seen);
        self.entities += 1;
        let written = serde_json::to_writer(&mut self.file, &line).map_err(io::Error::from);
        let written = written.and_then(|()| self.file.write_all(b"\n"));
        written.map_err(OperationError::TemporaryFile)
    }

    /// Returns the entities.
    ///
    /// # Errors
    ///
    /// Returns [`OperationError::TemporaryFile`] if the file cannot be written or read.
    pub fn read(self) -> Result<impl Iterator<Item = Result<Planned, OperationError>>, OperationError> {
        let file = self.file.into_inner().map_err(io::IntoInnerError::into_error);
        let file = file.and_then(|mut file| file.rewind().map(|()| file));
        let lines = BufReader::new(file.map_err(OperationError::TemporaryFile)?).lines();
        Ok(lines.map(|line| {
            let line = line.and_then(|line| Ok(serde_json::from_str(&line)?));
            let Line(entity, first, seen) = line.map_err(OperationError::TemporaryFile)?;
            let entity = EntityId::new(entity)?;
            Ok(Planned { entity, first, seen })
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entities_are_read_in_the_order_in_which_they_were_added() {
        let version = |number| Version::new(number).unwrap();
        let planned = |id: &str, first, seen| Planned {
            entity: EntityId::new(id).unwrap(),
            first,
            seen,
        };
        let all = [
            planned("b\n\"", None, None),
            planned("a", Some(version(4)), Some((version(7), vec![version(4), version(6)]))),
        ];
        let mut file = PlannedFile::create().unwrap();
        all.clone().into_iter().for_each(|planned| file.push(planned).unwrap());
        assert_eq!(file.entities, 2);
        assert_eq!(file.read().unwrap().collect::<Result<Vec<_>, _>>().unwrap(), all);
    }
}
