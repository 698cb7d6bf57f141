//! The entities whose states differ between two times.
//!
//! | at the first time | at the second time | result |
//! |---|---|---|
//! | not read | a version that was recorded until the first time, or none yet | the same |
//! | not existing | deleted | the same |
//! | a state | an equal state | the same |
//! | anything else | anything else | different |

use item_diff::change::Changes;
use serde_json::json;
use shared::domain::{Item, entity::EntityId, recorded_at::RecordedAt, view::VersionView};

use super::reader::{Reader, State};
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
    /// Counts of a comparison.
    pub struct Counts {
        /// Items read, of all kinds.
        pub items: u64,
        /// Entities whose states are equal, or that existed at neither time.
        pub same: u64,
        /// Entities whose states differ.
        pub different: u64,
        /// Entities of which a state is not known.
        pub unknown: u64,
    }
}

/// Result of the comparison of an entity, unless its states are equal.
pub enum Compared {
    Different(Difference),
    /// Reason why a state is not known.
    Unknown(EntityId, String),
}

/// States of an entity at two times, `None` if it did not exist or was deleted. They differ.
pub struct Difference {
    pub entity: EntityId,
    pub from: Option<Box<VersionView>>,
    pub to: Option<Box<VersionView>>,
}

impl Difference {
    /// Returns the changes of attributes and their members. All attributes of an entity are added by its creation, and removed by its
    /// deletion.
    pub fn changes(&self) -> Changes<'_> {
        Changes::between(attributes(self.from.as_deref()), attributes(self.to.as_deref()))
    }
}

fn attributes(view: Option<&VersionView>) -> Option<&Item> {
    view.map(|view| &view.attributes)
}

type Progress = progress::Progress<Counts>;

/// Comparison of the states of a table at two times. A step returns the entities of a page that differ.
pub type DiffRun = SegmentRun<Counts, (), Vec<Compared>>;

impl DiffRun {
    /// Prepares a comparison, or resumes the run of the checkpoint. The first time is not later than the second one.
    ///
    /// # Errors
    ///
    /// Returns the errors of a checkpoint.
    pub fn diff(plan: Plan<'_>, [from, to]: [RecordedAt; 2], consistent: bool) -> Result<Self, OperationError> {
        let table = Paced::new(plan.store, plan.pace);
        let reader = Reader { table, consistent };
        let options = json!({"From": from.to_string(), "To": to.to_string()});
        Self::begin(plan, "diff", options, |segment, progress: &Progress| {
            let reader = reader.clone();
            let mut entities = Entities::new(reader.table.clone(), plan.source, segment, progress, None);
            async move |progress: &mut Progress| {
                let read = async |entity: EntityId| compared(&reader, entity, [from, to]).await;
                let Some((compared, items)) = Reader::page(&mut entities, progress, read).await? else {
                    return Ok(None);
                };
                let counts = &mut progress.counts;
                counts.items += items;
                for compared in &compared {
                    *match compared {
                        None => &mut counts.same,
                        Some(Compared::Different(_)) => &mut counts.different,
                        Some(Compared::Unknown(..)) => &mut counts.unknown,
                    } += 1;
                }
                Ok(Some(compared.into_iter().flatten().collect()))
            }
        })
    }
}

/// Compares the states of an entity. `None` if they are equal.
async fn compared(
    reader: &Reader,
    entity: EntityId,
    [from, to]: [RecordedAt; 2],
) -> Result<Option<Compared>, OperationError> {
    let new = match reader.state(&entity, to).await? {
        State::Absent => return Ok(None),
        State::Exists(view) | State::Deleted(view) if view.recorded_at.is_some_and(|time| time <= from) => {
            return Ok(None);
        }
        State::Unknown(why) => return Ok(Some(Compared::Unknown(entity, why))),
        state => state.existing(),
    };
    let old = match reader.state(&entity, from).await? {
        State::Unknown(why) => return Ok(Some(Compared::Unknown(entity, why))),
        state => state.existing(),
    };
    let is_same = old.is_some() == new.is_some();
    let difference = Difference {
        entity,
        from: old,
        to: new,
    };
    let is_same = is_same && difference.changes().changes.is_empty();
    Ok((!is_same).then_some(Compared::Different(difference)))
}
