//! Audit of entities. Discrepancies are read again with strongly consistent reads before they are reported.
//!
//! Stream records may not be processed yet, so two kinds of discrepancies are read once more after the lag:
//!
//! - Missing versions are gaps only if they are still missing.
//! - If the counter does not fit the versions, or there is none, a repair continues from the highest version. That is known
//!   only when no higher version arrived during the lag. Otherwise the entity is read again after another lag.

use std::{collections::VecDeque, mem, time::Duration};

use tokio::time::Instant;

use crate::{
    attached::selection::Selection,
    audit::{
        collection::{Collection, beyond},
        deferred::DeferredCheck,
        finding::{Discrepancies, Finding, counts_nothing},
    },
    rate_limit::RateLimiter,
    read::paced::Paced,
    version_set::VersionSet,
};
use shared::{
    domain::{
        Item,
        entity::EntityId,
        keys::{FLOOR_KEY, LATEST_KEY},
        version::Version,
    },
    dynamodb::{Store, client::error::ServiceError, read::batch_get_items::MAX_KEYS},
};

/// Maximum number of times that an entity is read again because its highest version changes.
pub(super) const MAX_ROUNDS: u32 = 5;
/// Maximum number of versions that are read by key. For more, all versions of the entity are read.
const MAX_READ_BY_KEY: u64 = 3 * MAX_KEYS as u64;

/// Audits entities of a table. What can change while the stream is behind is deferred for the lag, and then read again.
#[derive(Debug)]
pub struct Auditor {
    pub(super) table: Paced,
    pub(super) lag: Duration,
    /// Items of an attached table that have a history.
    pub(super) selection: Selection,
    deferred: VecDeque<(DeferredCheck, Instant)>,
}

/// Discrepancies that were confirmed with strongly consistent reads.
struct Confirmed {
    found: Discrepancies,
    /// Highest version item.
    highest: Option<Version>,
    /// Version of the latest item, `None` without a valid one.
    latest: Option<Version>,
}

/// Findings of an entity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntityFindings {
    /// Entity.
    pub entity: EntityId,
    /// Findings; empty if the entity is consistent.
    pub findings: Vec<Finding>,
}

/// Audits one entity. `None` if it does not exist. If versions are missing, or the counter does not fit them, it takes as
/// long as the lag; longer, if higher versions arrive.
///
/// # Errors
///
/// Returns [`ServiceError`] if a request fails.
pub async fn audit(store: &Store, entity: &EntityId, lag: Duration) -> Result<Option<Vec<Finding>>, ServiceError> {
    let mut auditor = Auditor::new(store.clone(), RateLimiter::unlimited(), lag, Vec::new());
    let Some((_, mut findings)) = auditor.entity(entity, None).await? else {
        return Ok(None);
    };
    while let Some(audited) = auditor.settle().await? {
        findings.extend(audited.findings);
    }
    Ok(Some(findings))
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

    /// Returns the deferred checks.
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

    /// Reads all versions of an entity, and returns their number and the findings so far. `None` if the entity does not exist:
    /// of an attached table, if there is neither a history nor, if its key attributes are given, an item.
    ///
    /// # Errors
    ///
    /// Returns [`ServiceError`] if a request fails.
    pub async fn entity(
        &mut self,
        entity: &EntityId,
        key: Option<&Item>,
    ) -> Result<Option<(u64, Vec<Finding>)>, ServiceError> {
        let collection = self.read_all(entity).await?;
        if collection.is_entity() {
            let findings = match self.table.store.attached_table() {
                Some(_) => Box::pin(self.confirm_history(entity, &collection)).await?,
                None => self.examine(entity, &collection).await?,
            };
            return Ok(Some((collection.versions().len(), findings)));
        }
        // An item of an attached table that never changed has no history, which is no finding.
        let Some(key) = key else { return Ok(None) };
        let item = self.table.attached_item(key).await?;
        Ok(item.map(|_| (0, Vec::new())))
    }

    /// Audits an entity from items that were read with eventually consistent reads. What may change within the lag is
    /// deferred, see [`Self::settle`].
    pub(super) async fn examine(&mut self, entity: &EntityId, seen: &Collection) -> Result<Vec<Finding>, ServiceError> {
        let confirmed = self.confirm(entity, seen).await?;
        Ok(self.decide(entity, confirmed, None))
    }

    /// Returns the findings that are certain, and defers the others. A counter was doubtful `before` with this highest version, with
    /// these missing versions, in this number of rounds.
    fn decide(
        &mut self,
        entity: &EntityId,
        confirmed: Confirmed,
        before: Option<(Option<Version>, VersionSet, u32)>,
    ) -> Vec<Finding> {
        let Confirmed {
            mut found,
            highest,
            latest,
        } = confirmed;
        if self.lag.is_zero() {
            return found.findings();
        }
        let id = entity.as_str().to_owned();
        let is_stable = |(known, _, rounds): &(_, _, u32)| *known == highest || *rounds >= MAX_ROUNDS;
        if found.is_counter_doubtful() && !before.as_ref().is_some_and(is_stable) {
            self.defer(DeferredCheck::Counter {
                id,
                highest,
                missing: found.missing,
                rounds: before.map_or(0, |(_, _, rounds)| rounds + 1),
            });
            return Vec::new();
        }
        if let Some(latest) = latest {
            let missing = mem::take(&mut found.missing);
            let (_, known, _) = before.unwrap_or_default();
            found.missing = missing.and(&known);
            // The others can still be in the stream.
            let versions = missing.without(&known);
            if !versions.is_empty() {
                self.defer(DeferredCheck::Missing { id, latest, versions });
            }
        }
        found.findings()
    }

    /// Reads suspected discrepancies again, with strongly consistent reads.
    async fn confirm(&self, entity: &EntityId, seen: &Collection) -> Result<Confirmed, ServiceError> {
        let (digits, time) = (self.table.store.digits(), self.table.store.clock().now());
        let suspected = seen.check(digits, time);
        let mut found = Discrepancies::default();
        if suspected.is_clean() && !seen.is_uncompared() {
            return Ok(Confirmed {
                found,
                highest: seen.highest(),
                latest: None,
            });
        }
        let mut now = self.read_counter(entity).await?;
        if suspected.quarantined > 0 {
            now.add_quarantined(self.table.quarantined(entity).await?);
        }
        found.quarantined = now.quarantined();
        if suspected.uncounted_floor.is_some() {
            self.read_versions(entity, &mut now).await?;
            found.uncounted_floor = now.uncounted_floor();
        }
        let latest = now.latest_version();
        if let Some(Ok(latest)) = latest {
            let floor = now.floor();
            let missing = suspected.missing.within(floor.get(), latest.get());
            let strays = beyond(seen.versions(), latest);
            let unpruned = match latest < floor {
                true => VersionSet::default(),
                false => seen.unsettled().within(1, floor.get() - 1),
            };
            let doubtful = [&missing, &strays, &unpruned, &VersionSet::from_iter([latest.get()])];
            let ranges: Vec<_> = doubtful.into_iter().flat_map(VersionSet::ranges).collect();
            self.read_selected(entity, &ranges.into(), &mut now).await?;
            found.missing = missing.without(now.versions());
            found.strays = strays.and(now.versions());
            found.unpruned = unpruned.and(&now.unsettled());
            let checked = now.check(digits, time);
            (found.latest_differs, found.ahead) = (checked.latest_differs, checked.ahead);
        } else {
            found.no_version = match latest {
                Some(invalid) => invalid.err(),
                None => suspected.no_version.filter(|_| seen.is_padded()),
            };
            if counts_nothing(found.no_version) && found.uncounted_floor.is_none() {
                self.read_selected(entity, seen.versions(), &mut now).await?;
                found.orphans = seen.versions().and(now.versions());
            }
        }
        Ok(Confirmed {
            found,
            highest: seen.highest().max(now.highest()),
            latest: latest.and_then(Result::ok),
        })
    }

    pub(super) fn defer(&mut self, check: DeferredCheck) {
        self.deferred.push_back((check, Instant::now() + self.lag));
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
        let entity = check.entity()?;
        let findings = match check {
            DeferredCheck::Missing { latest, versions, .. } => self.settle_missing(&entity, latest, versions).await?,
            DeferredCheck::Counter {
                highest,
                missing,
                rounds,
                ..
            } => {
                let seen = self.read_all(&entity).await?;
                let confirmed = self.confirm(&entity, &seen).await?;
                self.decide(&entity, confirmed, Some((highest, missing, rounds)))
            }
            DeferredCheck::Item {
                first, newest, rounds, ..
            } => self.settle_item(&entity, first, newest, rounds).await?,
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
        let mut now = self.read_counter(entity).await?;
        match now.latest_version() {
            // An entity that was purged in the meantime has no gaps.
            None => return Ok(Vec::new()),
            Some(Ok(counted)) if counted >= latest => {}
            // The counter has changed, and versions before the change can still be on their way.
            Some(_) => {
                let examined = self.entity(entity, None).await?;
                return Ok(examined.map_or_else(Vec::new, |(_, findings)| findings));
            }
        }
        self.read_selected(entity, &versions, &mut now).await?;
        let wanted = versions.within(now.floor().get(), latest.get());
        let found = Discrepancies {
            missing: wanted.without(now.versions()),
            ..Discrepancies::default()
        };
        let mut findings = found.findings();
        if !versions.and(now.versions()).is_empty() {
            let first = versions.ranges().next().map_or(1, |(first, _)| first);
            let through = first - 1;
            findings.push(Finding::Lagging { through, latest });
        }
        Ok(findings)
    }

    /// Reads floor, versions and quarantine of an entity, and its latest item unless other programs write it.
    pub(super) async fn read_all(&self, entity: &EntityId) -> Result<Collection, ServiceError> {
        let mut all = Collection::default();
        self.read_item(entity, FLOOR_KEY, &mut all).await?;
        self.read_versions(entity, &mut all).await?;
        all.add_quarantined(self.table.quarantined(entity).await?);
        Ok(all)
    }

    /// Reads the floor and the latest item.
    async fn read_counter(&self, entity: &EntityId) -> Result<Collection, ServiceError> {
        let mut counter = Collection::default();
        self.read_item(entity, FLOOR_KEY, &mut counter).await?;
        self.read_item(entity, LATEST_KEY, &mut counter).await?;
        Ok(counter)
    }

    async fn read_item(&self, entity: &EntityId, key: &str, into: &mut Collection) -> Result<(), ServiceError> {
        if let Some(item) = self.table.get(entity, key).await? {
            into.add(item, &self.table.store);
        }
        Ok(())
    }

    async fn read_selected(
        &self,
        entity: &EntityId,
        versions: &VersionSet,
        into: &mut Collection,
    ) -> Result<(), ServiceError> {
        if versions.len() > MAX_READ_BY_KEY {
            return self.read_versions(entity, into).await;
        }
        let add = |item| into.add(item, &self.table.store);
        self.table.versions(entity, versions.numbers(), add).await
    }

    async fn read_versions(&self, entity: &EntityId, into: &mut Collection) -> Result<(), ServiceError> {
        if self.table.store.has_own_history() && self.table.store.attached_table().is_none() {
            self.read_item(entity, LATEST_KEY, into).await?;
        }
        let add = |item| into.add(item, &self.table.store);
        self.table.each_version(entity, add).await
    }
}
