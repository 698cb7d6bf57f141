//! What an audit finds of the entities to repair.

use std::{collections::BTreeMap, time::Duration};

use shared::{
    domain::{audit::Finding, entity::EntityId},
    dynamodb::{
        maintain::{
            audit::{Audited, Auditor},
            audit_segment::{Progress, SegmentAudit},
            rate_limit::Pace,
        },
        read::scan_segment::Segment,
    },
};

use crate::{
    connection::{Connection, entity},
    error::CliError,
    progress::Count,
};

/// Findings by entity.
pub(crate) type Findings = BTreeMap<EntityId, Vec<Finding>>;

/// The findings of these entities, and the last that is not there.
pub(crate) async fn of_entities(
    connection: &Connection,
    ids: &[String],
    lag: Duration,
) -> Result<(Findings, Option<String>), CliError> {
    let (mut findings, mut not_found) = (Findings::new(), None);
    let mut auditor = Auditor::new(connection.store.clone(), Pace::unbounded(), lag, Vec::new());
    for id in ids {
        let entity = entity(id)?;
        match auditor.entity(&entity).await? {
            Some((_, found)) => add(
                &mut findings,
                Audited {
                    entity,
                    findings: found,
                },
            ),
            None => not_found = Some(id.clone()),
        }
    }
    while let Some(audited) = auditor.settle().await? {
        add(&mut findings, audited);
    }
    Ok((findings, not_found))
}

/// The findings of every entity.
pub(crate) async fn of_table(connection: &Connection, lag: Duration) -> Result<Findings, CliError> {
    let mut findings = Findings::new();
    let whole = Segment { index: 0, total: 1 };
    let (store, pace) = (connection.store.clone(), Pace::unbounded());
    let mut audit = SegmentAudit::new(store, pace, lag, whole, Progress::default());
    let count = Count::new("items read");
    while let Some(step) = audit.step().await? {
        count.at(step.progress.counts.items);
        step.audited.into_iter().for_each(|audited| add(&mut findings, audited));
    }
    Ok(findings)
}

fn add(findings: &mut Findings, audited: Audited) {
    if !audited.findings.is_empty() {
        findings.entry(audited.entity).or_default().extend(audited.findings);
    }
}
