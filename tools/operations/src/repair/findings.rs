//! Findings of an audit, by entity.

use std::{collections::BTreeMap, time::Duration};

use shared::{domain::entity::EntityId, dynamodb::Store};

use crate::{
    audit::{EntitiesAudit, EntityStep, TableAudit, auditor::EntityFindings, collection::Finding},
    error::OperationError,
    progress::Progress,
    rate_limit::RateLimiter,
};

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
pub async fn of_table(store: &Store, lag: Duration, progress: &dyn Progress) -> Result<Findings, OperationError> {
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
