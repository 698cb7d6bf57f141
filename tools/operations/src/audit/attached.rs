//! Audit of the histories of an attached table, see [`domain::attached::audit`](crate::audit::attached_history).
//!
//! Suspected findings are read again with strongly consistent reads. The record of a change may not be processed yet, so an item
//! that differs from its history is compared again after the lag:
//!
//! | after the lag | decision |
//! |---|---|
//! | equal, and history has a newer version | lagging |
//! | different, and history has the same newest version that is not late | the item differs |
//! | different, and history has a newer version | compared again after another lag, at most five times; then lagging |
//!
//! If history has a newer version, its record showed the state before it, so no change before that can be missing unnoticed.

use std::{collections::VecDeque, time::Duration};

use tokio::time::Instant;

use crate::{
    audit::{
        attached_history::{History, Newest},
        auditor::{EntityFindings, MAX_ROUNDS},
        collection::Finding,
        deferred::{DeferredCheck, DifferentItem, entity_of},
        segment::{MAX_DEFERRED, Progress, Step},
    },
    rate_limit::RateLimiter,
    segments::{
        entities::{SeenEntity, SegmentEntities},
        scan::Segment,
    },
};
use shared::{
    domain::{
        Item,
        attached::{AttachedTable, item::LATE, selection::Selection},
        entity::EntityId,
        keys::{FLOOR_KEY, LATEST_KEY},
        version::Version,
        version_item::latest_of,
    },
    dynamodb::{
        Store,
        client::error::ServiceError,
        read::{batch_get_items::MAX_KEYS, query_items::Range},
    },
};

/// Audits histories of an attached table. Items that differ from their history are deferred for the lag, and then compared again.
#[derive(Debug)]
pub struct AttachedAuditor {
    store: Store,
    selection: Selection,
    limiter: RateLimiter,
    lag: Duration,
    deferred: VecDeque<(DifferentItem, Instant)>,
}

/// As [`audit`](super::auditor::audit), for an attached table.
pub(crate) async fn audit_attached(
    store: &Store,
    entity: &EntityId,
    lag: Duration,
) -> Result<Option<Vec<Finding>>, ServiceError> {
    let mut auditor = AttachedAuditor::new(store.clone(), RateLimiter::unlimited(), lag, Vec::new());
    let Some((_, mut findings)) = auditor.entity(entity, None).await? else {
        return Ok(None);
    };
    while let Some(audited) = auditor.settle().await? {
        findings.extend(audited.findings);
    }
    Ok(Some(findings))
}

impl AttachedAuditor {
    /// Creates an auditor that continues with the deferred checks of an earlier one.
    pub fn new(store: Store, limiter: RateLimiter, lag: Duration, deferred: Vec<DeferredCheck>) -> Self {
        let due = Instant::now() + lag;
        let deferred = deferred.into_iter().filter_map(|check| match check {
            DeferredCheck::Item(item) => Some((item, due)),
            DeferredCheck::Missing(_) | DeferredCheck::Counter(_) => None,
        });
        Self {
            selection: store.attached_table().map(Selection::new).unwrap_or_default(),
            deferred: deferred.collect(),
            store,
            limiter,
            lag,
        }
    }

    /// Returns the deferred checks.
    pub fn deferred(&self) -> Vec<DeferredCheck> {
        let deferred = self.deferred.iter();
        deferred.map(|(item, _)| DeferredCheck::Item(item.clone())).collect()
    }

    /// Returns the number of deferred checks.
    pub fn waiting(&self) -> usize {
        self.deferred.len()
    }

    /// Returns `true` if the first deferred check can be settled without waiting.
    pub fn is_due(&self) -> bool {
        self.deferred.front().is_some_and(|(_, due)| *due <= Instant::now())
    }

    /// Reads a history, and returns the number of its versions and the findings so far. `None` if there is neither a history nor,
    /// if its key attributes are given, an item.
    ///
    /// # Errors
    ///
    /// Returns [`ServiceError`] if a request fails.
    pub async fn entity(
        &mut self,
        entity: &EntityId,
        key: Option<&Item>,
    ) -> Result<Option<(u64, Vec<Finding>)>, ServiceError> {
        let history = self.read(entity).await?;
        if history.is_entity() {
            let findings = self.confirmed(entity, &history).await?;
            return Ok(Some((history.versions().len(), findings)));
        }
        // An item that never changed has no history, which is no finding.
        let Some(key) = key else { return Ok(None) };
        let item = self.item(key).await?;
        Ok(item.map(|_| (0, Vec::new())))
    }

    /// Audits a history that was read with eventually consistent reads, as the item in the table was. An item that differs is
    /// deferred, see [`Self::settle`].
    ///
    /// # Errors
    ///
    /// Returns [`ServiceError`] if a request fails.
    pub async fn examine(
        &mut self,
        entity: &EntityId,
        seen: &History,
        item: Option<&Item>,
    ) -> Result<Vec<Finding>, ServiceError> {
        let findings = seen.findings();
        let is_suspected = findings.iter().any(Finding::is_wrong) || self.differs(seen.newest(), item);
        if !is_suspected {
            return Ok(findings);
        }
        let history = self.read(entity).await?;
        self.confirmed(entity, &history).await
    }

    /// Returns the findings of a history that was read with strongly consistent reads, and defers an item that differs.
    async fn confirmed(&mut self, entity: &EntityId, history: &History) -> Result<Vec<Finding>, ServiceError> {
        let mut findings = history.findings();
        let Some(newest) = history.newest() else {
            return Ok(findings);
        };
        if self.item_differs(newest).await? {
            let version = newest.version;
            match self.lag.is_zero() {
                true => findings.push(Finding::Differs { version }),
                false => self.defer(DifferentItem {
                    id: entity.as_str().to_owned(),
                    first: version,
                    newest: version,
                    rounds: 0,
                }),
            }
        }
        Ok(findings)
    }

    fn defer(&mut self, item: DifferentItem) {
        self.deferred.push_back((item, Instant::now() + self.lag));
    }

    /// Waits for the lag, and decides the check that was deferred first. There are no findings if it is deferred again. `None`
    /// if nothing is deferred.
    ///
    /// # Errors
    ///
    /// Returns [`ServiceError`] if a request fails.
    pub async fn settle(&mut self) -> Result<Option<EntityFindings>, ServiceError> {
        let Some((check, due)) = self.deferred.front().cloned() else {
            return Ok(None);
        };
        tokio::time::sleep_until(due).await;
        let entity = entity_of(&check.id)?;
        let finding = self.settle_item(&entity, check).await?;
        self.deferred.pop_front();
        Ok(Some(EntityFindings {
            entity,
            findings: finding.into_iter().collect(),
        }))
    }

    async fn settle_item(&mut self, entity: &EntityId, check: DifferentItem) -> Result<Option<Finding>, ServiceError> {
        let latest = self
            .limiter
            .run(async || self.store.get(entity, LATEST_KEY, true).await);
        // A history that was purged in the meantime has no findings.
        let Some((newest, version)) = latest.await?.and_then(newest_of) else {
            return Ok(None);
        };
        let lagging = Finding::Lagging {
            through: check.first.get(),
            latest: version,
        };
        let has_advanced = version != check.newest;
        if !self.item_differs(&newest).await? {
            return Ok((version != check.first).then_some(lagging));
        }
        if !has_advanced {
            return Ok(Some(Finding::Differs { version }));
        }
        if check.rounds >= MAX_ROUNDS {
            return Ok(Some(lagging));
        }
        self.defer(DifferentItem {
            newest: version,
            rounds: check.rounds + 1,
            ..check
        });
        Ok(None)
    }

    fn table(&self) -> Option<&AttachedTable> {
        self.store.attached_table()
    }

    fn differs(&self, newest: Option<&Newest>, item: Option<&Item>) -> bool {
        let newest = self.table().zip(newest);
        newest.is_some_and(|(table, newest)| newest.differs(table, &self.selection, item))
    }

    /// Compares a state with the item, which is read with a strongly consistent read. A state without key attributes differs.
    async fn item_differs(&self, newest: &Newest) -> Result<bool, ServiceError> {
        let Some(key) = self.table().and_then(|table| newest.key(table)) else {
            return Ok(true);
        };
        let item = self.item(&key).await?;
        Ok(self.differs(Some(newest), item.as_ref()))
    }

    async fn item(&self, key: &Item) -> Result<Option<Item>, ServiceError> {
        self.limiter
            .run(async || crate::read::attached_items::attached_item(&self.store, key).await)
            .await
    }

    /// Reads the history of an item with strongly consistent reads.
    async fn read(&self, entity: &EntityId) -> Result<History, ServiceError> {
        let mut history = History::default();
        let floor = self.limiter.run(async || self.store.get(entity, FLOOR_KEY, true).await);
        floor.await?.into_iter().for_each(|floor| history.add(floor));
        let range = Range::all_versions(self.limiter.page_limit());
        let mut cursor = None;
        loop {
            let page = self
                .limiter
                .run(async || self.store.query_page(entity, &range, cursor.clone()).await);
            let (items, next) = page.await?;
            for item in items {
                history.add(item);
            }
            cursor = next;
            if cursor.is_none() {
                break;
            }
        }
        let quarantined = self
            .limiter
            .run(async || crate::read::quarantined::quarantined(&self.store, entity).await)
            .await?;
        history.add_quarantined(quarantined.len() as u64);
        Ok(history)
    }
}

/// Returns the newest state that is not late, and its version. `None` if only late versions are left.
fn newest_of(latest: Item) -> Option<(Newest, Version)> {
    let version = latest_of(&latest).ok()?;
    let is_late = latest.contains_key(LATE);
    (!is_late).then(|| (Newest::of_flat(version, latest), version))
}

/// Audit of a segment of the history table.
pub struct AttachedSegmentAudit {
    auditor: AttachedAuditor,
    entities: SegmentEntities<History>,
    progress: Progress,
}

impl AttachedSegmentAudit {
    /// Starts an audit, or continues from the progress of an earlier one.
    pub fn new(store: Store, limiter: RateLimiter, lag: Duration, segment: Segment, progress: Progress) -> Self {
        Self {
            entities: SegmentEntities::new(store.clone(), limiter.clone(), segment, progress.after.as_ref()),
            auditor: AttachedAuditor::new(store, limiter, lag, progress.deferred.clone()),
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
            let mut seen = self.entities.next_page().await?;
            while !seen.is_empty() {
                let next = seen.split_off(seen.len().min(MAX_KEYS));
                audited.extend(self.examine(seen).await?);
                seen = next;
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

    /// Audits at most [`MAX_KEYS`] histories.
    async fn examine(&mut self, seen: Vec<SeenEntity<History>>) -> Result<Vec<EntityFindings>, ServiceError> {
        let keys = seen.iter().filter_map(|seen| {
            let table = self.auditor.table()?;
            seen.summary.newest()?.key(table)
        });
        let keys: Vec<_> = keys.collect();
        let items = self
            .auditor
            .limiter
            .run(async || crate::read::attached_items::attached_items(&self.auditor.store, keys.clone()).await);
        let items = items.await?;
        let mut audited = Vec::new();
        for SeenEntity {
            entity,
            summary,
            items: count,
            last,
        } in seen
        {
            let counts = &mut self.progress.counts;
            counts.items += count;
            self.progress.after = Some(last);
            if !summary.is_entity() {
                continue;
            }
            counts.entities += 1;
            counts.versions += summary.versions().len();
            let findings = self.auditor.examine(&entity, &summary, items.get(&entity)).await?;
            audited.push(EntityFindings { entity, findings });
        }
        Ok(audited)
    }
}
