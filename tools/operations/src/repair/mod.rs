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

use std::time::Duration;

use shared::{domain::entity::EntityId, dynamodb::Store};

pub use self::{
    plan::{Findings, Repair},
    step::Step,
};
use crate::{
    audit::{EntitiesAudit, TableAudit, auditor::EntityFindings},
    connection::Connection,
    error::OperationError,
    failures::source::Source,
    progress::Progress,
    rate_limit::RateLimiter,
    redrive::Services,
    segments,
};

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

/// Audits these entities, or the whole table, and plans the steps. `audited` is the progress of the audit, `searched` that of the search
/// in documents.
///
/// # Errors
///
/// Returns [`OperationError`] if a request fails, or a source cannot be read.
pub async fn plan(
    connection: &Connection,
    ids: Option<&[String]>,
    options: &Options<'_>,
    audited: &dyn Progress,
    searched: &dyn Progress,
) -> Result<Repair, OperationError> {
    let store = &connection.store;
    let (found, not_found) = match ids {
        None => (of_table(store, options.lag, audited).await?, None),
        Some(ids) => of_entities(store, ids, options.lag, audited).await?,
    };
    let mut repair = Repair::of(store, &found, options.revive).await?;
    repair.not_found = not_found;
    let search = repair.add_missing(connection, options.services, options.sources, searched);
    search.await?;
    Ok(repair)
}

/// Audits entities. Returns their findings, and the last entity that does not exist. Notes that it waits for the lag.
pub async fn of_entities(
    store: &Store,
    ids: &[String],
    lag: Duration,
    progress: &dyn Progress,
) -> Result<(Findings, Option<EntityId>), OperationError> {
    let mut findings = Findings::new();
    let mut audit = EntitiesAudit::new(store.clone(), RateLimiter::unlimited(), lag, ids)?;
    let mut is_noted = false;
    while let Some(audited) = audit.step().await? {
        if audit.is_waiting() && !std::mem::replace(&mut is_noted, true) {
            let seconds = lag.as_secs();
            progress.note(&format!(
                "waiting {seconds} s for versions that may still be in the stream"
            ));
        }
        add(&mut findings, audited);
    }
    Ok((findings, audit.not_found.pop()))
}

/// Audits the whole table. Reports the number of items that were read.
async fn of_table(store: &Store, lag: Duration, progress: &dyn Progress) -> Result<Findings, OperationError> {
    let mut findings = Findings::new();
    let pace = RateLimiter::unlimited();
    let plan = segments::Plan {
        segments: Some(1),
        ..segments::Plan::new(store, &pace)
    };
    let mut audit = TableAudit::new(plan, lag)?;
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
