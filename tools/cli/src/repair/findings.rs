//! What an audit finds of the entities to repair.

use std::collections::BTreeMap;

use shared::{
    domain::{audit::Finding, entity::EntityId},
    dynamodb::{
        audit::{Audited, Auditor},
        audit_segment::{Progress, SegmentAudit},
        pace::Pace,
        scan_segment::Segment,
    },
};

use super::{Repair, lag};
use crate::{
    connection::{Connection, entity},
    error::CliError,
    progress::Count,
};

/// Findings by entity.
pub(crate) type Findings = BTreeMap<EntityId, Vec<Finding>>;

/// The findings, and an entity that is not there, if one was named.
pub(crate) async fn find(connection: &Connection, args: &Repair) -> Result<(Findings, Option<String>), CliError> {
    let (mut findings, mut not_found) = (Findings::new(), None);
    let mut add = |audited: Audited| {
        if !audited.findings.is_empty() {
            findings.entry(audited.entity).or_default().extend(audited.findings);
        }
    };
    if args.all {
        let whole = Segment { index: 0, total: 1 };
        let (store, pace) = (connection.store.clone(), Pace::unbounded());
        let mut audit = SegmentAudit::new(store, pace, lag(args), whole, Progress::default());
        let count = Count::new("items read");
        while let Some(step) = audit.step().await? {
            count.at(step.progress.counts.items);
            step.audited.into_iter().for_each(&mut add);
        }
    } else {
        let mut auditor = Auditor::new(connection.store.clone(), Pace::unbounded(), lag(args), Vec::new());
        for id in &args.ids {
            let entity = entity(id)?;
            match auditor.entity(&entity).await? {
                Some((_, findings)) => add(Audited { entity, findings }),
                None => not_found = Some(id.clone()),
            }
        }
        while let Some(audited) = auditor.settle().await? {
            add(audited);
        }
    }
    Ok((findings, not_found))
}
