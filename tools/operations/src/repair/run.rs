//! A repair from the audit to the summary.

use std::time::Duration;

use serde_json::{Value, json};
use shared::{domain::entity::EntityId, dynamodb::Store};

use super::{
    apply::Done,
    findings::{of_entities, of_table},
    plan::Plan,
};
use crate::{
    connection::Connection, error::OperationError, failures::source::Source, progress::Progress, redrive::Feed,
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
    /// Sources of failure documents.
    pub sources: &'a [Source],
    /// `true` to search the table's stream.
    pub stream: bool,
    /// `true` to create a missing latest item.
    pub revive: bool,
}

/// A plan that is not executed yet.
#[derive(Debug)]
pub struct Repair {
    pub plan: Plan,
    /// Number of entities with findings.
    entities: usize,
    /// An entity that does not exist.
    not_found: Option<EntityId>,
}

/// Result of a repair.
#[derive(Debug)]
pub struct Repaired {
    pub done: Done,
    entities: usize,
    /// Number of findings without a step.
    left: usize,
    not_found: Option<EntityId>,
    is_executed: bool,
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
        plan.add_missing(connection, feed, options.sources, options.stream)
            .await?;
        Ok(Self {
            plan,
            entities: found.len(),
            not_found,
        })
    }

    /// Executes the steps.
    pub async fn execute(mut self, store: &Store, progress: &dyn Progress) -> Repaired {
        let mut done = Done::default();
        let steps = std::mem::take(&mut self.plan.steps);
        done.execute(store, steps, progress).await;
        Repaired {
            done,
            is_executed: true,
            ..self.not_executed()
        }
    }

    /// Returns the result of a plan that is only shown.
    pub fn not_executed(self) -> Repaired {
        Repaired {
            done: Done::default(),
            entities: self.entities,
            left: self.plan.left.len(),
            not_found: self.not_found,
            is_executed: false,
        }
    }
}

impl Repaired {
    /// Returns the counts, without the steps that were not done.
    pub fn counts(&self) -> Value {
        let mut counts = self.done.counts();
        counts["Entities"] = json!(self.entities);
        counts["Left"] = json!(self.left);
        counts["DryRun"] = json!(!self.is_executed);
        counts
    }

    /// Returns the counts and the steps that were not done.
    pub fn summary(&self) -> Value {
        let mut summary = self.counts();
        self.done.add_lists(&mut summary);
        summary
    }

    /// Checks that everything is repaired.
    ///
    /// # Errors
    ///
    /// Returns [`OperationError::Retryable`] if a step failed, [`OperationError::Incomplete`] if a finding is left, and
    /// [`OperationError::NoEntity`] if an entity does not exist.
    pub fn verdict(&self) -> Result<(), OperationError> {
        self.done.verdict(self.left)?;
        match &self.not_found {
            Some(entity) => Err(OperationError::NoEntity(entity.as_str().to_owned())),
            None => Ok(()),
        }
    }
}
