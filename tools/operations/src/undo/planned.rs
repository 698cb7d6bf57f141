//! Entities that are to be undone, in a temporary file, so that memory does not grow with their number.

use serde::{Deserialize, Serialize};
use shared::domain::{entity::EntityId, version::Version};

use super::plan::EntityPlan;
use crate::{error::OperationError, value_file::ValueFile};

/// Entity that is to be undone.
#[derive(Debug, Clone)]
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
    file: ValueFile<Line>,
    /// Number of entities.
    pub entities: u64,
}

impl PlannedFile {
    /// # Errors
    ///
    /// Returns [`OperationError::TemporaryFile`] if the file cannot be created. So do the other functions if it cannot be written or read.
    pub fn create() -> Result<Self, OperationError> {
        Ok(Self {
            file: ValueFile::new()?,
            entities: 0,
        })
    }

    /// Adds an entity.
    pub fn push(&mut self, planned: Planned) -> Result<(), OperationError> {
        let line = Line(planned.entity.as_str().to_owned(), planned.first, planned.seen);
        self.entities += 1;
        self.file.push(&line)
    }

    /// Returns the entities.
    pub fn read(&mut self) -> Result<impl Iterator<Item = Result<Planned, OperationError>>, OperationError> {
        let lines = self.file.read_from(0)?;
        Ok(lines.map(|line| {
            let (Line(entity, first, seen), _) = line?;
            let entity = EntityId::new(entity)?;
            Ok(Planned { entity, first, seen })
        }))
    }
}
