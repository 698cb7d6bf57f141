//! Audit of one segment of a table, page by page. It can continue from the progress of an earlier run.

use std::{collections::BTreeMap, iter::Sum, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{
    audit::auditor::{Auditor, DeferredCheck, EntityFindings},
    error::OperationError,
    rate_limit::RateLimiter,
    segments::{
        self, Work,
        entities::{ItemKey, SeenEntity, SegmentEntities},
        scan::Segment,
    },
};
use shared::dynamodb::{Store, client::error::ServiceError, read::batch_get_items::MAX_KEYS};

/// Maximum number of deferred entities. They are settled before more pages are read.
const MAX_DEFERRED: usize = 10_000;

/// Progress of the audit of a segment.
pub type Progress = segments::Progress<ItemKey, Counts, Vec<DeferredCheck>>;

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
    pub fn add(&mut self, audited: &EntityFindings) {
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

/// Audit of a segment.
pub(super) struct SegmentAudit {
    auditor: Auditor,
    entities: SegmentEntities,
    progress: Progress,
}

impl SegmentAudit {
    /// Starts an audit, or continues from the progress of an earlier one.
    pub(super) fn new(store: Store, limiter: RateLimiter, lag: Duration, segment: Segment, progress: Progress) -> Self {
        let auditor = Auditor::new(store, limiter, lag, progress.deferred.clone());
        Self {
            entities: SegmentEntities::new(auditor.table.clone(), segment, progress.after.as_ref()),
            auditor,
            progress,
        }
    }

    /// Audits the entities of the next page.
    async fn page(&mut self) -> Result<Vec<EntityFindings>, ServiceError> {
        let (mut audited, mut seen) = (Vec::new(), self.entities.next_page().await?);
        let is_attached = self.auditor.table.store.attached_table().is_some();
        while !seen.is_empty() {
            let next = seen.split_off(seen.len().min(MAX_KEYS));
            let items = self.auditor.items_of(&seen).await?;
            for SeenEntity {
                entity,
                summary,
                items: read,
                last,
            } in seen
            {
                // Counted here, so that items that are read again after an interruption are not counted twice.
                let counts = &mut self.progress.counts;
                counts.items += read;
                self.progress.after = Some(last);
                if !summary.is_entity() {
                    continue;
                }
                counts.entities += 1;
                counts.versions += summary.versions().len();
                let findings = match is_attached {
                    true => {
                        let item = items.get(&entity);
                        Box::pin(self.auditor.examine_history(&entity, &summary, item)).await?
                    }
                    false => self.auditor.examine(&entity, &summary, None).await?,
                };
                audited.push(EntityFindings { entity, findings });
            }
            seen = next;
        }
        self.progress.done = self.entities.is_read();
        Ok(audited)
    }
}

impl Work for SegmentAudit {
    type Progress = Progress;
    type Found = Vec<EntityFindings>;

    fn progress(&self) -> &Progress {
        &self.progress
    }

    async fn step(&mut self) -> Result<Option<Vec<EntityFindings>>, OperationError> {
        let is_full = self.auditor.waiting() >= MAX_DEFERRED;
        let mut audited = if self.progress.done || is_full || self.auditor.is_due() {
            match self.auditor.settle().await? {
                Some(settled) => vec![settled],
                None => return Ok(None),
            }
        } else {
            Box::pin(self.page()).await?
        };
        audited.retain(|audited| !audited.findings.is_empty());
        for audited in &audited {
            self.progress.counts.add(audited);
        }
        self.progress.deferred = self.auditor.deferred();
        Ok(Some(audited))
    }
}
