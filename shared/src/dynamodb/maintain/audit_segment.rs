//! The audit of a table, one segment of it: page by page, from where an earlier run stopped.

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

/// With so many entities put off, they are settled before more is read.
const MAX_DEFERRED: usize = 10_000;

/// How far the audit of a segment has come: all that has to be kept to go on from there.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Progress {
    /// The last item of the last entity that was audited.
    after: Option<ItemKey>,
    /// Whether everything was read.
    read: bool,
    /// What is still to be looked for again.
    missing: Vec<MissingVersions>,
    /// What was counted.
    pub counts: Counts,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct ItemKey {
    #[serde(rename = "PK")]
    partition_key: String,
    #[serde(rename = "SK")]
    sort_key: String,
}

/// What an audit counted.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Counts {
    /// Items that were read, of all kinds.
    pub items: u64,
    /// Entities.
    pub entities: u64,
    /// Version items.
    pub versions: u64,
    /// Findings, by the names of their kinds.
    pub findings: BTreeMap<String, u64>,
    /// Whether one of them is wrong.
    pub wrong: bool,
}

impl Counts {
    /// Counts what was found.
    pub fn add(&mut self, audited: &EntityFindings) {
        for finding in &audited.findings {
            *self.findings.entry(finding.name().to_owned()).or_default() += 1;
            self.wrong |= finding.is_wrong();
        }
    }

    /// Counts what others counted.
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

/// What one step of an audit brought.
#[derive(Debug)]
pub struct Step {
    /// Entities that something was found of.
    pub audited: Vec<EntityFindings>,
    /// How far the audit is with that.
    pub progress: Progress,
}

/// The audit of a segment.
pub struct SegmentAudit {
    auditor: Auditor,
    segment: Segment,
    progress: Progress,
    cursor: Option<Cursor>,
    /// The entity whose items are being read, and the key of the last of them.
    current: Option<(EntityId, Collection, ItemKey)>,
}

impl SegmentAudit {
    /// Begins, or goes on from where an earlier audit of the same segment was.
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

    /// One step further, `None` at the end.
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

    /// The items of one entity come one after the other.
    async fn add(&mut self, key: ItemKey, item: Item, audited: &mut Vec<EntityFindings>) -> Result<(), ServiceError> {
        let is_current = (self.current.as_ref()).is_some_and(|(entity, ..)| entity.as_str() == key.partition_key);
        if !is_current {
            self.finish_entity(audited).await?;
        }
        // DynamoDB has no other partition keys than these, but for the one of the table's own settings.
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
        // Counted here, so that what is read again after a break is not counted twice.
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
