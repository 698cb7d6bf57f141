//! Audit of entities. Discrepancies are read again with strongly consistent reads before they are reported.
//!
//! Stream records may not be processed yet, so three kinds of discrepancies are deferred, and read once more after the lag:
//!
//! | discrepancy | after the lag | decision |
//! |---|---|---|
//! | versions are missing | some of them arrived | lagging |
//! | | still missing | gaps |
//! | the counter does not fit the versions, or there is none | the highest version is the same | as found: a repair continues from it |
//! | | a higher version arrived | the entity is read again after another lag |
//! | an attached table's item differs from history | equal, and history has a newer version | lagging |
//! | | different, and history has the same newest version that is not late | the item differs |
//! | | different, and history has a newer version | compared again after another lag; at the end lagging |
//!
//! If history has a newer version of an item, its record showed the state before it, so no change before that can be missing
//! unnoticed.

use std::{
    collections::{HashMap, VecDeque},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::{
    audit::{
        attached::Newest,
        collection::Collection,
        finding::{Finding, missing},
    },
    rate_limit::RateLimiter,
    read::{attached_items::attached_items, paced::Paced},
    segments::entities::SeenEntity,
    version_set::VersionSet,
};
use attach::selection::Selection;
use shared::{
    domain::{
        Item,
        attached::item::LATE,
        entity::EntityId,
        keys::{FLOOR_KEY, LATEST_KEY},
        version::Version,
        version_item::latest_of,
    },
    dynamodb::{Store, client::error::ServiceError, read::batch_get_items::MAX_KEYS},
};

/// Maximum number of times that an entity is read again because its highest version changes.
const MAX_ROUNDS: u32 = 5;
/// Maximum number of versions that are read by key. For more, all versions of the entity are read.
const MAX_READ_BY_KEY: u64 = 3 * MAX_KEYS as u64;

/// Part of an audit of an entity that is decided after the lag. It is part of the progress from which a later run continues.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeferredCheck {
    id: String,
    doubt: Doubt,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum Doubt {
    /// Missing versions, which may still arrive.
    Missing { latest: Version, versions: VersionSet },
    /// The counter does not fit the versions. Higher versions may still arrive.
    Counter(Counter),
    /// The item of an attached table differs from its newest state in history. The record of its change may still arrive.
    Item {
        /// Newest version when the item was first compared.
        first: Version,
        /// Newest version when the item was compared last.
        newest: Version,
        rounds: u32,
    },
}

/// State of a check in which the counter was doubtful.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Counter {
    highest: Option<Version>,
    missing: VersionSet,
    rounds: u32,
}

/// Audits entities of a table. What can change while the stream is behind is deferred for the lag, and then read again.
#[derive(Debug)]
pub struct Auditor {
    pub(super) table: Paced,
    lag: Duration,
    /// Items of an attached table that have a history.
    selection: Selection,
    deferred: VecDeque<(DeferredCheck, Instant)>,
}

/// Findings of an entity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntityFindings {
    pub entity: EntityId,
    /// Findings; empty if the entity is consistent.
    pub findings: Vec<Finding>,
}

impl Auditor {
    /// Creates an auditor that continues with the deferred checks of an earlier one.
    pub fn new(store: Store, limiter: RateLimiter, lag: Duration, deferred: Vec<DeferredCheck>) -> Self {
        let due = Instant::now() + lag;
        Self {
            selection: store.attached_table().map(Selection::new).unwrap_or_default(),
            table: Paced { store, limiter },
            lag,
            deferred: deferred.into_iter().map(|check| (check, due)).collect(),
        }
    }

    pub fn deferred(&self) -> Vec<DeferredCheck> {
        self.deferred.iter().map(|(check, _)| check.clone()).collect()
    }

    /// Returns the number of deferred checks.
    pub fn waiting(&self) -> usize {
        self.deferred.len()
    }

    /// Returns `true` if the first deferred check can be settled without waiting.
    pub fn is_due(&self) -> bool {
        self.deferred.front().is_some_and(|(_, due)| *due <= Instant::now())
    }

    fn defer(&mut self, entity: &EntityId, doubt: Doubt) {
        let id = entity.as_str().to_owned();
        let check = DeferredCheck { id, doubt };
        self.deferred.push_back((check, Instant::now() + self.lag));
    }

    /// Reads all versions of an entity, and returns their number and the findings so far. `None` if the entity does not exist:
    /// of an attached table, if there is neither a history nor, if its key attributes are given, an item.
    pub async fn entity(
        &mut self,
        entity: &EntityId,
        key: Option<&Item>,
    ) -> Result<Option<(u64, Vec<Finding>)>, ServiceError> {
        let seen = self.read_all(entity).await?;
        if seen.is_entity() {
            let findings = match seen.is_attached {
                true => Box::pin(self.confirm_history(entity, &seen)).await?,
                false => self.examine_versions(entity, &seen, None).await?,
            };
            return Ok(Some((seen.versions.len(), findings)));
        }
        // An item of an attached table that never changed has no history, which is no finding.
        let Some(key) = key else { return Ok(None) };
        let item = self.table.attached_item(key).await?;
        Ok(item.map(|_| (0, Vec::new())))
    }

    /// Audits an entity from items that were read with eventually consistent reads, and from its item of an attached table. Returns the
    /// findings that are certain, and defers the others, see [`Self::settle`].
    pub(super) async fn examine(
        &mut self,
        entity: &EntityId,
        seen: &Collection,
        item: Option<&Item>,
    ) -> Result<Vec<Finding>, ServiceError> {
        if !seen.is_attached {
            return self.examine_versions(entity, seen, None).await;
        }
        let found = self.check(seen);
        let differs = Newest::of_history(seen).is_some_and(|newest| self.differs(&newest, item));
        if !differs && !found.iter().any(Finding::is_wrong) {
            return Ok(found);
        }
        let history = self.read_all(entity).await?;
        self.confirm_history(entity, &history).await
    }

    /// Returns the findings of a history that was read with strongly consistent reads, and defers an item that differs.
    async fn confirm_history(&mut self, entity: &EntityId, history: &Collection) -> Result<Vec<Finding>, ServiceError> {
        let mut findings = self.check(history);
        if let Some(newest) = Newest::of_history(history)
            && self.item_differs(&newest).await?
        {
            let version = newest.version;
            if self.lag.is_zero() {
                findings.push(Finding::Differs { version });
            } else {
                let (first, newest, rounds) = (version, version, 0);
                self.defer(entity, Doubt::Item { first, newest, rounds });
            }
        }
        Ok(findings)
    }

    /// Audits the versions of an entity, after an earlier check in which the counter was doubtful.
    async fn examine_versions(
        &mut self,
        entity: &EntityId,
        seen: &Collection,
        before: Option<Counter>,
    ) -> Result<Vec<Finding>, ServiceError> {
        let suspected = self.check(seen);
        if suspected.is_empty() {
            return Ok(suspected);
        }
        let now = self.read_again(entity, seen).await?;
        let mut found = self.check(&now);
        let mut gaps = missing(&found).and(&missing(&suspected));
        found.retain(|finding| !matches!(finding, Finding::Gap { .. }));
        if !self.lag.is_zero() {
            let highest = seen.highest().max(now.highest());
            let is_stable = |before: &Counter| before.highest == highest || before.rounds >= MAX_ROUNDS;
            if found.iter().any(Finding::is_about_counter) && !before.as_ref().is_some_and(is_stable) {
                let doubt = Counter {
                    highest,
                    missing: gaps,
                    rounds: before.map_or(0, |before| before.rounds + 1),
                };
                self.defer(entity, Doubt::Counter(doubt));
                return Ok(Vec::new());
            }
            if let Some(Ok(latest)) = now.latest_version() {
                let known = before.map(|before| before.missing).unwrap_or_default();
                // The others can still be in the stream.
                let versions = gaps.without(&known);
                gaps = gaps.and(&known);
                if !versions.is_empty() {
                    self.defer(entity, Doubt::Missing { latest, versions });
                }
            }
        }
        Ok(Finding::gaps(&gaps).chain(found).collect())
    }

    /// Reads the floor, the latest item, and the versions that do not fit them, with strongly consistent reads.
    async fn read_again(&self, entity: &EntityId, seen: &Collection) -> Result<Collection, ServiceError> {
        let is_counted = seen.uncounted_floor().is_none();
        let mut now = match is_counted {
            true => Collection::read_items(&self.table, entity, &[FLOOR_KEY, LATEST_KEY]).await?,
            false => Collection::read(&self.table, entity).await?,
        };
        now.has_padded |= seen.has_padded;
        now.of_other_width = now.of_other_width.max(seen.of_other_width);
        if seen.quarantined > 0 {
            now.quarantined = self.table.quarantined(entity).await?;
        }
        if !is_counted {
            return Ok(now);
        }
        let mut known = seen.clone();
        (known.latest, known.floor) = (now.latest.clone(), now.floor);
        let unfit = self.check(&known);
        let newest = match now.latest_version() {
            Some(Ok(latest)) => Some(latest),
            _ => seen.highest(),
        };
        let newest = newest.map(|newest| (newest.get(), newest.get()));
        let doubtful: Vec<_> = unfit.iter().filter_map(Finding::range).chain(newest).collect();
        self.read_selected(entity, &doubtful.into(), &mut now).await?;
        Ok(now)
    }

    /// Waits for the lag, and decides the check that was deferred first. There are no findings if it is deferred again. `None`
    /// if nothing is deferred.
    pub async fn settle(&mut self) -> Result<Option<EntityFindings>, ServiceError> {
        let Some((check, due)) = self.deferred.front().cloned() else {
            return Ok(None);
        };
        tokio::time::sleep_until(due).await;
        // The id was valid when the check was deferred.
        let entity = EntityId::new(check.id).map_err(|_| ServiceError::not_built("GetItem"))?;
        let findings = match check.doubt {
            Doubt::Missing { latest, versions } => self.settle_missing(&entity, latest, versions).await?,
            Doubt::Counter(before) => {
                let seen = self.read_all(&entity).await?;
                self.examine_versions(&entity, &seen, Some(before)).await?
            }
            Doubt::Item { first, newest, rounds } => self.settle_item(&entity, first, newest, rounds).await?,
        };
        self.deferred.pop_front();
        Ok(Some(EntityFindings { entity, findings }))
    }

    async fn settle_missing(
        &mut self,
        entity: &EntityId,
        latest: Version,
        versions: VersionSet,
    ) -> Result<Vec<Finding>, ServiceError> {
        let mut now = Collection::read_items(&self.table, entity, &[FLOOR_KEY, LATEST_KEY]).await?;
        match now.latest_version() {
            // An entity that was purged in the meantime has no gaps.
            None => return Ok(Vec::new()),
            Some(Ok(counted)) if counted >= latest => {}
            // The counter has changed, and versions before the change can still be on their way.
            Some(_) => {
                let seen = self.read_all(entity).await?;
                return self.examine_versions(entity, &seen, None).await;
            }
        }
        self.read_selected(entity, &versions, &mut now).await?;
        let wanted = versions.within(now.floor().get(), latest.get());
        let mut findings: Vec<_> = Finding::gaps(&wanted.without(&now.versions)).collect();
        if !versions.and(&now.versions).is_empty() {
            let through = versions.ranges().next().map_or(0, |(first, _)| first - 1);
            findings.push(Finding::Lagging { through, latest });
        }
        Ok(findings)
    }

    /// Decides whether an item that differed still does: from version `first` on, and from `before` on when it was compared last.
    async fn settle_item(
        &mut self,
        entity: &EntityId,
        first: Version,
        before: Version,
        rounds: u32,
    ) -> Result<Vec<Finding>, ServiceError> {
        let latest = self.table.get(entity, LATEST_KEY).await?;
        let latest = latest.filter(|latest| !latest.contains_key(LATE));
        // A history that was purged in the meantime has no findings, nor has one of which only late versions are left.
        let Some((version, latest)) = latest.and_then(|latest| Some((latest_of(&latest).ok()?, latest))) else {
            return Ok(Vec::new());
        };
        let differs = self.item_differs(&Newest::of(version, latest)).await?;
        let (through, latest) = (first.get(), version);
        let lagging = Finding::Lagging { through, latest };
        Ok(match differs {
            false if version == first => Vec::new(),
            true if version == before => vec![Finding::Differs { version }],
            true if rounds < MAX_ROUNDS => {
                let (newest, rounds) = (version, rounds + 1);
                self.defer(entity, Doubt::Item { first, newest, rounds });
                Vec::new()
            }
            _ => vec![lagging],
        })
    }

    fn check(&self, items: &Collection) -> Vec<Finding> {
        items.check(self.table.store.clock().now())
    }

    /// Reads floor, versions and quarantine of an entity, and its latest item unless other programs write it.
    async fn read_all(&self, entity: &EntityId) -> Result<Collection, ServiceError> {
        let mut all = Collection::read(&self.table, entity).await?;
        all.quarantined += self.table.quarantined(entity).await?;
        Ok(all)
    }

    async fn read_selected(
        &self,
        entity: &EntityId,
        versions: &VersionSet,
        into: &mut Collection,
    ) -> Result<(), ServiceError> {
        if versions.len() > MAX_READ_BY_KEY {
            return self.table.each_version(entity, |item| into.add(item)).await;
        }
        let keys = self.table.store.digits().version_keys(versions.numbers());
        for keys in keys.chunks(MAX_KEYS) {
            let items = self.table.send(async |store| store.batch_get(entity, keys, true).await);
            items.await?.into_iter().for_each(|item| into.add(item));
        }
        Ok(())
    }

    /// Reads the items of at most [`MAX_KEYS`] histories of an attached table, eventually consistent.
    pub(super) async fn items_of(&self, seen: &[SeenEntity]) -> Result<HashMap<EntityId, Item>, ServiceError> {
        let Some(table) = self.table.store.attached_table() else {
            return Ok(HashMap::new());
        };
        let keys = seen
            .iter()
            .filter_map(|seen| Newest::of_history(&seen.summary)?.key(table));
        let keys: Vec<_> = keys.collect();
        self.table.send(async |store| attached_items(store, &keys).await).await
    }

    fn differs(&self, newest: &Newest, item: Option<&Item>) -> bool {
        let table = self.table.store.attached_table();
        table.is_some_and(|table| newest.differs(table, &self.selection, item))
    }

    /// Compares a state with the item, which is read with a strongly consistent read. A state without key attributes differs.
    async fn item_differs(&self, newest: &Newest) -> Result<bool, ServiceError> {
        let table = self.table.store.attached_table();
        let Some(key) = table.and_then(|table| newest.key(table)) else {
            return Ok(true);
        };
        let item = self.table.attached_item(&key).await?;
        Ok(self.differs(newest, item.as_ref()))
    }
}
