//! Audit of one segment of a table, page by page. It can continue from the progress of an earlier run.

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{
    audit::{
        attached_history::History,
        auditor::{Auditor, EntityFindings},
        collection::Collection,
        deferred::DeferredCheck,
    },
    rate_limit::RateLimiter,
    segments::{
        entities::{ItemKey, SeenEntity, SegmentEntities, Summary},
        scan::Segment,
    },
};
use shared::dynamodb::{Store, client::error::ServiceError, read::batch_get_items::MAX_KEYS};

/// Maximum number of deferred entities. They are settled before more pages are read.
pub(crate) const MAX_DEFERRED: usize = 10_000;

/// Progress of the audit of a segment: the state needed to continue.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Progress {
    /// Last item of the last entity that was audited.
    pub(crate) after: Option<ItemKey>,
    /// `true` if the whole segment was read.
    pub(crate) read: bool,
    #[serde(rename = "Missing")]
    pub(crate) deferred: Vec<DeferredCheck>,
    /// Counts so far.
    pub counts: Counts,
}

/// Counts of an audit.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Counts {
    /// Items read, of all kinds.
    pub items: u64,
    /// Entities.
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
            *self.findings.entry(finding.name().to_owned()).or_default() += 1;
            self.wrong |= finding.is_wrong();
        }
    }

    /// Adds other counts.
    pub fn merge(&mut self, other: &Self) {
        self.items += other.items;
        self.entities += other.entities;
        self.versions += other.versions;
        self.wrong |= other.wrong;
        for (name, count) in &other.findings {
            *self.findings.entry(name.clone()).or_default() += count;
        }
    }
}

/// Result of one step of an audit.
#[derive(Debug)]
pub struct Step {
    /// Entities with findings.
    pub audited: Vec<EntityFindings>,
    /// Progress after the step.
    pub progress: Progress,
}

/// Audit of a segment.
pub struct SegmentAudit {
    auditor: Auditor,
    entities: Entities,
    progress: Progress,
}

/// Entities of a segment, as the kind of the table needs them.
enum Entities {
    Own(SegmentEntities<Collection>),
    Attached(SegmentEntities<History>),
}

impl SegmentAudit {
    /// Starts an audit, or continues from the progress of an earlier one.
    pub fn new(store: Store, limiter: RateLimiter, lag: Duration, segment: Segment, progress: Progress) -> Self {
        let (after, own, pace) = (progress.after.as_ref(), store.clone(), limiter.clone());
        Self {
            entities: match store.attached_table() {
                Some(_) => Entities::Attached(SegmentEntities::new(own, pace, segment, after)),
                None => Entities::Own(SegmentEntities::new(own, pace, segment, after)),
            },
            auditor: Auditor::new(store, limiter, lag, progress.deferred.clone()),
            progress,
        }
    }

    /// Executes one step, `None` at the end.
    ///
    /// # Errors
    ///
    /// Returns [`ServiceError`] if a request fails.
    pub async fn step(&mut self) -> Result<Option<Step>, ServiceError> {
        let mut audited = Vec::new();
        let is_full = self.auditor.waiting() >= MAX_DEFERRED;
        if self.progress.read || is_full || self.auditor.is_due() {
            match self.auditor.settle().await? {
                Some(settled) => audited.push(settled),
                None => return Ok(None),
            }
        } else {
            audited = Box::pin(self.page()).await?;
        }
        audited.retain(|audited| !audited.findings.is_empty());
        for audited in &audited {
            self.progress.counts.add(audited);
        }
        self.progress.deferred = self.auditor.deferred();
        Ok(Some(Step {
            audited,
            progress: self.progress.clone(),
        }))
    }

    /// Audits the entities of the next page.
    async fn page(&mut self) -> Result<Vec<EntityFindings>, ServiceError> {
        let mut audited = Vec::new();
        match &mut self.entities {
            Entities::Own(entities) => {
                for seen in entities.next_page().await? {
                    if self.progress.add(&seen) {
                        let SeenEntity { entity, summary, .. } = seen;
                        let findings = self.auditor.examine(&entity, &summary).await?;
                        audited.push(EntityFindings { entity, findings });
                    }
                }
                self.progress.read = entities.is_read();
            }
            Entities::Attached(entities) => {
                let mut seen = entities.next_page().await?;
                while !seen.is_empty() {
                    let next = seen.split_off(seen.len().min(MAX_KEYS));
                    let items = self.auditor.items_of(&seen).await?;
                    for seen in seen {
                        if self.progress.add(&seen) {
                            let SeenEntity { entity, summary, .. } = seen;
                            let item = items.get(&entity);
                            let findings = self.auditor.examine_history(&entity, &summary, item).await?;
                            audited.push(EntityFindings { entity, findings });
                        }
                    }
                    seen = next;
                }
                self.progress.read = entities.is_read();
            }
        }
        Ok(audited)
    }
}

impl Progress {
    /// Adds what was seen of an entity. Returns `false` if it is none.
    fn add<S: Summary>(&mut self, seen: &SeenEntity<S>) -> bool {
        // Counted here, so that items that are read again after an interruption are not counted twice.
        self.counts.items += seen.items;
        self.after = Some(seen.last.clone());
        let is_entity = seen.summary.is_entity();
        if is_entity {
            self.counts.entities += 1;
            self.counts.versions += seen.summary.versions().len();
        }
        is_entity
    }
}
