//! Audit of one segment of a table, page by page. It can continue from the progress of an earlier run.

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{
    domain::{
        Item,
        audit::Collection,
        entity::EntityId,
        keys::{partition_key_of, sort_key_of},
        names,
    },
    dynamodb::{
        Store,
        client::error::ServiceError,
        maintain::{
            audit::{Auditor, EntityFindings, MissingVersions},
            rate_limit::RateLimiter,
        },
        read::{query_items::Cursor, scan_segment::Segment},
        s,
    },
};

/// Maximum number of deferred entities. They are settled before more pages are read.
const MAX_DEFERRED: usize = 10_000;

/// Progress of the audit of a segment: the state needed to continue.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Progress {
    /// Last item of the last entity that was audited.
    after: Option<ItemKey>,
    /// `true` if the whole segment was read.
    read: bool,
    missing: Vec<MissingVersions>,
    /// Counts so far.
    pub counts: Counts,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct ItemKey {
    #[serde(rename = "PK")]
    partition_key: String,
    #[serde(rename = "SK")]
    sort_key: String,
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
    segment: Segment,
    progress: Progress,
    cursor: Option<Cursor>,
    /// Entity whose items are being read, and the key of the last item.
    current: Option<(EntityId, Collection, ItemKey)>,
}

impl SegmentAudit {
    /// Starts an audit, or continues from the progress of an earlier one.
    pub fn new(store: Store, limiter: RateLimiter, lag: Duration, segment: Segment, progress: Progress) -> Self {
        let cursor = progress.after.as_ref().map(|after| {
            Cursor::from([
                (names::PK.to_owned(), s(&after.partition_key)),
                (names::SK.to_owned(), s(&after.sort_key)),
            ])
        });
        Self {
            auditor: Auditor::new(store, limiter, lag, progress.missing.clone()),
            segment,
            progress,
            cursor,
            current: None,
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
            self.read_page(&mut audited).await?;
        }
        audited.retain(|audited| !audited.findings.is_empty());
        for audited in &audited {
            self.progress.counts.add(audited);
        }
        self.progress.missing = self.auditor.missing();
        Ok(Some(Step {
            audited,
            progress: self.progress.clone(),
        }))
    }

    async fn read_page(&mut self, audited: &mut Vec<EntityFindings>) -> Result<(), ServiceError> {
        let (store, limiter) = (self.auditor.store().clone(), self.auditor.limiter().clone());
        let limit = limiter.page_limit();
        let page = limiter.run(async || {
            store
                .scan_segment(self.segment, self.cursor.clone(), limit, false)
                .await
        });
        let (items, next) = page.await?;
        for item in items {
            if let Some(key) = key_of(&item) {
                self.add(key, item, audited).await?;
            }
        }
        self.cursor = next;
        if self.cursor.is_none() {
            self.finish_entity(audited).await?;
            self.progress.read = true;
        }
        Ok(())
    }

    /// Adds an item. The items of one entity are adjacent in a scan.
    async fn add(&mut self, key: ItemKey, item: Item, audited: &mut Vec<EntityFindings>) -> Result<(), ServiceError> {
        let is_current = (self.current.as_ref()).is_some_and(|(entity, ..)| entity.as_str() == key.partition_key);
        if !is_current {
            self.finish_entity(audited).await?;
        }
        // Only the table's own settings have a partition key that is not an entity.
        let Ok(entity) = EntityId::new(key.partition_key.clone()) else {
            return Ok(());
        };
        let digits = self.auditor.store().digits();
        let (_, collection, last) = self
            .current
            .get_or_insert_with(|| (entity, Collection::default(), key.clone()));
        collection.add(item, digits);
        *last = key;
        Ok(())
    }

    async fn finish_entity(&mut self, audited: &mut Vec<EntityFindings>) -> Result<(), ServiceError> {
        let Some((entity, collection, last)) = self.current.take() else {
            return Ok(());
        };
        // Counted here, so that items that are read again after an interruption are not counted twice.
        self.progress.counts.items += collection.items();
        if collection.is_entity() {
            self.progress.counts.entities += 1;
            self.progress.counts.versions += collection.versions().len();
            let findings = self.auditor.examine(&entity, &collection).await?;
            audited.push(EntityFindings { entity, findings });
        }
        self.progress.after = Some(last);
        Ok(())
    }
}

fn key_of(item: &Item) -> Option<ItemKey> {
    Some(ItemKey {
        partition_key: partition_key_of(item)?.to_owned(),
        sort_key: sort_key_of(item)?.to_owned(),
    })
}
