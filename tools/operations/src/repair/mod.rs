//! Repair: restores what an audit finds. No version item is overwritten.
//!
//! ```text
//! findings ─▶ plan of each entity's own items ─▶ missing versions from the sources of a redrive ─▶ steps ─▶ tally
//! ```
//!
//! A dry run is the plan alone.

mod entity;
mod findings;
mod plan;
mod quarantined;
mod search;
mod step;

use std::time::Duration;

use shared::domain::entity::EntityId;

pub use self::{
    findings::{Findings, of_entities, of_table},
    plan::Plan,
    step::{Step, execute},
};
use crate::{
    connection::Connection,
    error::OperationError,
    failures::source::Source,
    progress::Progress,
    redrive::{Count, Feed, Tally},
};

/// Entities that are audited.
#[derive(Debug, Clone, Copy)]
pub enum Scope<'a> {
    /// These partition keys.
    Entities(&'a [String]),
    Table,
}

/// Where missing versions come from.
#[derive(Debug, Clone, Copy)]
pub struct Options<'a> {
    /// Wait for versions that may still be in the stream.
    pub lag: Duration,
    /// Sources of stream records.
    pub sources: &'a [Source],
    /// `true` to create a missing latest item.
    pub revive: bool,
}

/// A plan, and the result of its steps.
#[derive(Debug)]
pub struct Repair {
    pub plan: Plan,
    /// An entity that does not exist.
    not_found: Option<EntityId>,
    /// The number of findings, and the outcomes of the steps that were executed.
    pub tally: Tally,
}

impl Repair {
    /// Audits the entities and plans the steps. `audited` is the progress of the audit, the feed has that of the documents.
    ///
    /// # Errors
    ///
    /// Returns [`OperationError`] if a request fails, or a source cannot be read.
    pub async fn plan(
        connection: &Connection,
        scope: Scope<'_>,
        options: &Options<'_>,
        audited: &dyn Progress,
        feed: &Feed<'_>,
    ) -> Result<Self, OperationError> {
        let store = &connection.store;
        let (found, not_found) = match scope {
            Scope::Table => (of_table(store, options.lag, audited).await?, None),
            Scope::Entities(ids) => of_entities(store, ids, options.lag, audited).await?,
        };
        let mut plan = Plan::of(store, &found, options.revive).await?;
        plan.add_missing(store, feed, options.sources).await?;
        let mut tally = Tally::of_repair();
        tally.count(Count::Entities, found.len() as u64);
        tally.count(Count::Left, plan.left.len() as u64);
        Ok(Self { plan, not_found, tally })
    }

    /// Executes the steps.
    pub async fn execute(&mut self, connection: &Connection, progress: &dyn Progress) {
        let steps = std::mem::take(&mut self.plan.steps);
        self.tally.add(execute(&connection.store, steps, progress).await);
    }

    /// Checks that everything is repaired.
    ///
    /// # Errors
    ///
    /// Returns [`OperationError::Retryable`] if a step failed, [`OperationError::Incomplete`] if a finding is left, and
    /// [`OperationError::NoEntity`] if an entity does not exist.
    pub fn verdict(&self) -> Result<(), OperationError> {
        self.tally.verdict()?;
        match &self.not_found {
            Some(entity) => Err(OperationError::NoEntity(entity.as_str().to_owned())),
            None => Ok(()),
        }
    }
}
