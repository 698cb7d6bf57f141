//! Audit of one segment of a table, page by page. It can continue from the progress of an earlier run.

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{
    audit::{
        auditor::{Auditor, EntityFindings},
        collection::Collection,
        deferred::DeferredCheck,
    },
    rate_limit::RateLimiter,
    segments::{
        entities::{ItemKey, SeenEntity, SegmentEntities},
        scan::Segment,
    },
};
use shared::dynamodb::{Store, client::error::ServiceError};

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
    entities: SegmentEntities<Collection>,
    progress: Progress,
}

impl SegmentAudit {
    /// Starts an audit, or continues from the progress of an earlier one.
    pub fn new(store: Store, limiter: RateLimiter, lag: Duration, segment: Segment, progress: Progress) -> Self {
        Self {
            entities: SegmentEntities::new(store.clone(), limiter.clone(), segment, progress.after.as_ref()),
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
            for seen in self.entities.next_page().await? {
                audited.extend(self.examine(seen).await?);
            }
            self.progress.read = self.entities.is_read();
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

    async fn examine(&mut self, seen: SeenEntity<Collection>) -> Result<Option<EntityFindings>, ServiceError> {
        let SeenEntity {
            entity,
            summary,
            items,
            last,
        } = seen;
        // Counted here, so that items that are read again after an interruption are not counted twice.
        self.progress.counts.items += items;
        self.progress.after = Some(last);
        if !summary.is_entity() {
            return Ok(None);
        }
        self.progress.counts.entities += 1;
        self.progress.counts.versions += summary.versions().len();
        let findings = self.auditor.examine(&entity, &summary).await?;
        Ok(Some(EntityFindings { entity, findings }))
    }
}
