//! Audit of the histories of an attached table, see [`attached_history`](super::attached_history).
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

use std::collections::HashMap;

use shared::{
    domain::{
        Item,
        attached::{AttachedTable, item::LATE},
        entity::EntityId,
        keys::{FLOOR_KEY, LATEST_KEY},
        version::Version,
        version_item::latest_of,
    },
    dynamodb::client::error::ServiceError,
};

use crate::{
    audit::{
        attached_history::{History, Newest},
        auditor::{Auditor, EntityFindings, MAX_ROUNDS},
        collection::Finding,
        deferred::{DeferredCheck, DifferentItem, entity_of},
    },
    read::{
        attached_items::{attached_item, attached_items},
        each_version::each_version,
    },
    segments::entities::SeenEntity,
};

impl Auditor {
    /// Reads a history, and returns the number of its versions and the findings so far. `None` if there is neither a history nor,
    /// if its key attributes are given, an item.
    pub(super) async fn attached_entity(
        &mut self,
        entity: &EntityId,
        key: Option<&Item>,
    ) -> Result<Option<(u64, Vec<Finding>)>, ServiceError> {
        let history = self.read_history(entity).await?;
        if history.is_entity() {
            let findings = self.confirm_history(entity, &history).await?;
            return Ok(Some((history.versions().len(), findings)));
        }
        // An item that never changed has no history, which is no finding.
        let Some(key) = key else { return Ok(None) };
        let item = self.item(key).await?;
        Ok(item.map(|_| (0, Vec::new())))
    }

    /// Audits a history that was read with eventually consistent reads, as the item in the table was. An item that differs is
    /// deferred, see [`Self::settle`].
    pub(super) async fn examine_history(
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
        let history = self.read_history(entity).await?;
        self.confirm_history(entity, &history).await
    }

    /// Returns the findings of a history that was read with strongly consistent reads, and defers an item that differs.
    async fn confirm_history(&mut self, entity: &EntityId, history: &History) -> Result<Vec<Finding>, ServiceError> {
        let mut findings = history.findings();
        let Some(newest) = history.newest() else {
            return Ok(findings);
        };
        if self.item_differs(newest).await? {
            let version = newest.version;
            match self.lag.is_zero() {
                true => findings.push(Finding::Differs { version }),
                false => self.defer(DeferredCheck::Item(DifferentItem {
                    id: entity.as_str().to_owned(),
                    first: version,
                    newest: version,
                    rounds: 0,
                })),
            }
        }
        Ok(findings)
    }

    /// Decides whether an item that differed still does. There are no findings if it is deferred again.
    pub(super) async fn settle_item(&mut self, check: DifferentItem) -> Result<EntityFindings, ServiceError> {
        let entity = entity_of(&check.id)?;
        let finding = self.decide_item(&entity, check).await?;
        Ok(EntityFindings {
            entity,
            findings: finding.into_iter().collect(),
        })
    }

    async fn decide_item(&mut self, entity: &EntityId, check: DifferentItem) -> Result<Option<Finding>, ServiceError> {
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
        self.defer(DeferredCheck::Item(DifferentItem {
            newest: version,
            rounds: check.rounds + 1,
            ..check
        }));
        Ok(None)
    }

    /// Reads the items of at most [`MAX_KEYS`](shared::dynamodb::read::batch_get_items::MAX_KEYS) histories, eventually consistent.
    pub(super) async fn items_of(&self, seen: &[SeenEntity<History>]) -> Result<HashMap<EntityId, Item>, ServiceError> {
        let keys = seen.iter().filter_map(|seen| seen.summary.newest()?.key(self.table()?));
        let keys: Vec<_> = keys.collect();
        let items = self
            .limiter
            .run(async || attached_items(&self.store, keys.clone()).await);
        items.await
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
        self.limiter.run(async || attached_item(&self.store, key).await).await
    }

    /// Reads the history of an item with strongly consistent reads.
    async fn read_history(&self, entity: &EntityId) -> Result<History, ServiceError> {
        let mut history = History::default();
        let floor = self.limiter.run(async || self.store.get(entity, FLOOR_KEY, true).await);
        floor.await?.into_iter().for_each(|floor| history.add(floor));
        each_version(&self.store, &self.limiter, entity, |item| history.add(item)).await?;
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
