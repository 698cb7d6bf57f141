//! Repair: restores what an audit finds. No version item is overwritten.
//!
//! ```text
//! findings ─▶ plan of each entity's own items ─▶ missing versions from the sources of a redrive ─▶ steps ─▶ tally
//! ```
//!
//! A dry run is the plan alone.

mod entity;
mod plan;
mod quarantined;
mod search;
mod step;

use std::{collections::BTreeMap, time::Duration};

use shared::{domain::entity::EntityId, dynamodb::Store};

pub use self::{
    plan::Plan,
    step::{Step, execute},
};
use crate::{
    audit::{EntitiesAudit, EntityStep, TableAudit, auditor::EntityFindings, collection::Finding},
    connection::Connection,
    error::OperationError,
    failures::source::Source,
    progress::Progress,
    rate_limit::RateLimiter,
    redrive::{Count, Feed, Services, Tally},
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
    pub services: &'a Services,
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
    /// Audits the entities and plans the steps. `audited` is the progress of the audit, `searched` that of the search in documents.
    ///
    /// # Errors
    ///
    /// Returns [`OperationError`] if a request fails, or a source cannot be read.
    pub async fn plan(
        connection: &Connection,
        scope: Scope<'_>,
        options: &Options<'_>,
        audited: &dyn Progress,
        searched: &dyn Progress,
    ) -> Result<Self, OperationError> {
        let store = &connection.store;
        let (found, not_found) = match scope {
            Scope::Table => (of_table(store, options.lag, audited).await?, None),
            Scope::Entities(ids) => of_entities(store, ids, options.lag, audited).await?,
        };
        let mut plan = Plan::of(store, &found, options.revive).await?;
        let feed = Feed::new(connection, options.services, None, searched);
        plan.add_missing(store, &feed, options.sources).await?;
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

/// Findings of an audit, by entity.
pub type Findings = BTreeMap<EntityId, Vec<Finding>>;

/// Audits entities. Returns their findings, and the last entity that does not exist. Notes that it waits for the lag.
pub async fn of_entities(
    store: &Store,
    ids: &[String],
    lag: Duration,
    progress: &dyn Progress,
) -> Result<(Findings, Option<EntityId>), OperationError> {
    let (mut findings, mut not_found) = (Findings::new(), None);
    let mut audit = EntitiesAudit::new(store.clone(), RateLimiter::unlimited(), lag, ids)?;
    let mut is_noted = false;
    while let Some(step) = audit.step().await? {
        if audit.is_waiting() && !std::mem::replace(&mut is_noted, true) {
            let seconds = lag.as_secs();
            progress.note(&format!(
                "waiting {seconds} s for versions that may still be in the stream"
            ));
        }
        match step {
            EntityStep::Examined(_, audited) | EntityStep::Settled(audited) => add(&mut findings, audited),
            EntityStep::NotFound(entity) => not_found = Some(entity),
        }
    }
    Ok((findings, not_found))
}

/// Audits the whole table. Reports the number of items that were read.
async fn of_table(store: &Store, lag: Duration, progress: &dyn Progress) -> Result<Findings, OperationError> {
    let mut findings = Findings::new();
    let mut audit = TableAudit::new(store, &RateLimiter::unlimited(), lag, Some(1), None)?;
    while let Some(audited) = audit.step().await? {
        progress.at(audit.counts().items);
        for audited in audited {
            add(&mut findings, audited);
        }
    }
    Ok(findings)
}

fn add(findings: &mut Findings, audited: EntityFindings) {
    if !audited.findings.is_empty() {
        findings.entry(audited.entity).or_default().extend(audited.findings);
    }
}
