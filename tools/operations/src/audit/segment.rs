//! Audit of a table, segment by segment. It can continue from the progress of an earlier run.

use std::{collections::BTreeMap, iter::Sum, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{
    audit::auditor::{Auditor, DeferredCheck, EntityFindings},
    error::OperationError,
    segments::{
        Plan, SegmentRun,
        entities::{SeenEntity, SegmentEntities},
        progress,
    },
};
use shared::dynamodb::{client::error::ServiceError, read::batch_get_items::MAX_KEYS};

/// Maximum number of deferred entities. They are settled before more pages are read.
const MAX_DEFERRED: usize = 10_000;

/// Counts of an audit.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Counts {
    /// Items read, of all kinds.
    pub items: u64,
    pub entities: u64,
    /// Version items.
    pub versions: u64,
    /// Findings by kind.
    pub findings: BTreeMap<String, u64>,
    /// `true` if a finding requires an action.
    pub wrong: bool,
}

impl Counts {
    /// Adds the findings of an entity.
    pub(super) fn add(&mut self, audited: &EntityFindings) {
        for finding in &audited.findings {
            *self.findings.entry(finding.name()).or_default() += 1;
            self.wrong |= finding.is_wrong();
        }
    }
}

impl<'a> Sum<&'a Self> for Counts {
    fn sum<I: Iterator<Item = &'a Self>>(all: I) -> Self {
        all.fold(Self::default(), |mut sum, counts| {
            sum.items += counts.items;
            sum.entities += counts.entities;
            sum.versions += counts.versions;
            sum.wrong |= counts.wrong;
            for (name, count) in &counts.findings {
                *sum.findings.entry(name.clone()).or_default() += count;
            }
            sum
        })
    }
}

type Progress = progress::Progress<Counts, Vec<DeferredCheck>>;

/// Audit of a table. A step returns the entities with findings.
pub type TableAudit = SegmentRun<Counts, Vec<DeferredCheck>, Vec<EntityFindings>>;

impl TableAudit {
    /// Prepares an audit, or resumes the run of the checkpoint.
    pub fn new(plan: Plan<'_>, lag: Duration) -> Result<Self, OperationError> {
        Self::begin(plan, "audit", (), |segment, progress: &Progress| {
            let deferred = progress.deferred.clone();
            let mut auditor = Auditor::new(plan.store.clone(), plan.pace.clone(), lag, deferred);
            let mut entities = SegmentEntities::new(auditor.table.clone(), segment, progress, None);
            async move |progress: &mut Progress| {
                let is_full = auditor.waiting() >= MAX_DEFERRED;
                let mut audited = if progress.done || is_full || auditor.is_due() {
                    match auditor.settle().await? {
                        Some(settled) => vec![settled],
                        None => return Ok(None),
                    }
                } else {
                    Box::pin(page(&mut auditor, &mut entities, progress)).await?
                };
                audited.retain(|audited| !audited.findings.is_empty());
                for audited in &audited {
                    progress.counts.add(audited);
                }
                progress.deferred = auditor.deferred();
                Ok(Some(audited))
            }
        })
    }
}

/// Audits the entities of the next page.
async fn page(
    auditor: &mut Auditor,
    entities: &mut SegmentEntities,
    progress: &mut Progress,
) -> Result<Vec<EntityFindings>, ServiceError> {
    let (mut audited, mut seen) = (Vec::new(), entities.next_page(progress).await?);
    let counts = &mut progress.counts;
    while !seen.is_empty() {
        let next = seen.split_off(seen.len().min(MAX_KEYS));
        let of_history = auditor.items_of(&seen).await?;
        for SeenEntity {
            entity, summary, items, ..
        } in seen
        {
            counts.items += items;
            if summary.is_entity() {
                counts.entities += 1;
                counts.versions += summary.versions.len();
                let findings = auditor.examine(&entity, &summary, of_history.get(&entity)).await?;
                audited.push(EntityFindings { entity, findings });
            }
        }
        seen = next;
    }
    Ok(audited)
}
