//! The state of every entity at a time.
//!
//! ```text
//! segment ─▶ page of entities ─▶ as_of(entity, time), 16 at a time ─▶ states ─▶ caller
//!                                                                          └──▶ version 1 or item of an empty table
//! ```
//!
//! A state is the one that [`as_of`](crate::as_of) reads for the entity alone. Memory holds one page of each segment. A run that is
//! interrupted resumes at the page that was not complete; the states of that page are returned again.

pub mod diff;
mod reader;
pub mod target;

use std::sync::Arc;

use serde_json::json;
use shared::domain::{entity::EntityId, recorded_at::RecordedAt, view::VersionView};

use self::{
    reader::{Reader, State},
    target::{Target, Written},
};
use crate::{
    error::OperationError,
    read::paced::Paced,
    segments::{
        Plan, SegmentRun,
        progress::{self, counts},
    },
    time_index::entities::Entities,
};

counts! {
    /// Counts of a snapshot.
    pub struct Counts {
        /// Items read, of all kinds.
        pub items: u64,
        /// Entities that existed at the time.
        pub entities: u64,
        /// Entities that were deleted at the time.
        pub deleted: u64,
        /// Entities that did not exist yet.
        pub later: u64,
        /// Entities whose state is not known.
        pub unknown: u64,
        /// States that were written into the target.
        pub written: u64,
        /// States that an earlier run wrote into the target.
        pub already_there: u64,
        /// States that the target cannot have.
        pub refused: u64,
    }
}

/// Entity of a snapshot.
pub enum Found {
    /// Its state, unless it was written into a target.
    State(Box<VersionView>),
    /// Reason why its state is not known, or not written.
    Failed(EntityId, String),
}

type Progress = progress::Progress<Counts>;

/// Snapshot of a table. A step returns the entities of a page.
pub type SnapshotRun = SegmentRun<Counts, (), Vec<Found>>;

impl SnapshotRun {
    /// Prepares a snapshot, or resumes the run of the checkpoint. With a target, it writes the states there, and returns only failures.
    ///
    /// # Errors
    ///
    /// Returns the errors of a checkpoint.
    pub fn snapshot(
        plan: Plan<'_>,
        time: RecordedAt,
        consistent: bool,
        target: Option<Target>,
    ) -> Result<Self, OperationError> {
        let table = Paced::new(plan.store, plan.pace);
        let (reader, into) = (Reader { table, consistent }, target.as_ref().map(Target::name));
        let options = json!({"At": time.to_string(), "Into": into});
        let target = Arc::new(target);
        Self::begin(plan, "snapshot", options, |segment, progress: &Progress| {
            let (reader, target) = (reader.clone(), Arc::clone(&target));
            let mut entities = Entities::new(reader.table.clone(), plan.source, segment, progress, None);
            async move |progress: &mut Progress| {
                let read = async |entity: EntityId| {
                    let state = reader.state(&entity, time).await?;
                    let written = match (&state, &*target) {
                        (State::Exists(view), Some(target)) => Some(target.write(view).await?),
                        _ => None,
                    };
                    Ok((entity, state, written))
                };
                let Some((states, items)) = Reader::page(&mut entities, progress, read).await? else {
                    return Ok(None);
                };
                let counts = &mut progress.counts;
                counts.items += items;
                let found = states.into_iter();
                Ok(Some(found.filter_map(|state| counts.add(state)).collect()))
            }
        })
    }
}

impl Counts {
    /// Counts an entity, and returns what the caller needs of it.
    fn add(&mut self, (entity, state, written): (EntityId, State, Option<Written>)) -> Option<Found> {
        self.entities += u64::from(matches!(state, State::Exists(_)));
        let (count, found) = match (state, written) {
            (State::Exists(view), None) => return Some(Found::State(view)),
            (State::Exists(_), Some(Written::New)) => (&mut self.written, None),
            (State::Exists(_), Some(Written::AlreadyThere)) => (&mut self.already_there, None),
            (State::Exists(_), Some(Written::Refused(why))) => (&mut self.refused, Some(why)),
            (State::Deleted(_), _) => (&mut self.deleted, None),
            (State::Absent, _) => (&mut self.later, None),
            (State::Unknown(why), _) => (&mut self.unknown, Some(why)),
        };
        *count += 1;
        found.map(|why| Found::Failed(entity, why))
    }
}
