//! Audit of entities. Discrepancies are read again with strongly consistent reads before they are reported.
//!
//! Stream records may not be processed yet, so three kinds of discrepancies are deferred, and read once more after the lag:
//!
//! - Missing versions are gaps only if they are still missing.
//! - If the counter does not fit the versions, or there is none, a repair continues from the highest version. That is known
//!   only when no higher version arrived during the lag. Otherwise the entity is read again after another lag.
//! - An item of an attached table that differs from its history is compared again (`attached`).

use std::{collections::VecDeque, time::Duration};

use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::{
    audit::{
        collection::Collection,
        finding::{Discrepancies, Finding},
    },
    rate_limit::RateLimiter,
    read::paced::Paced,
    version_set::VersionSet,
};
use attach::selection::Selection;
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

/// Part of an audit of an entity that is decided after the lag. It is part of the progress from which a later run continues.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeferredCheck {
    #[serde(rename = "ID")]
    id: String,
    #[serde(flatten)]
    doubt: Doubt,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, rename_all_fields = "PascalCase")]
pub(super) enum Doubt {
    /// Missing versions, which may still arrive.
    Missing {
        #[serde(alias = "Head")]
        latest: Version,
        versions: VersionSet,
    },
    /// The counter does not fit the versions. Higher versions may still arrive.
    Counter {
        highest: Option<Version>,
        missing: VersionSet,
        rounds: u32,
    },
    /// The item of an attached table differs from its newest state in history. The record of its change may still arrive.
    Item {
        /// Newest version when the item was first compared.
        first: Version,
        /// Newest version when the item was compared last.
        newest: Version,
        rounds: u32,
    },
}

/// Audits entities of a table. What can change while the stream is behind is deferred for the lag, and then read again.
#[derive(Debug)]
pub struct Auditor {
    pub(super) table: Paced,
    pub(super) lag: Duration,
    /// Items of an attached table that have a history.
    pub(super) selection: Selection,
    deferred: VecDeque<(DeferredCheck, Instant)>,
}

/// Findings of an entity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntityFindings {
    pub entity: EntityId,
    /// Findings; empty if the entity is consistent.
    pub findings: Vec<Finding>,
}

/// State of an earlier check in which the counter was doubtful: the highest version, the missing versions, and the number of rounds.
type Before = (Option<Version>, VersionSet, u32);

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

    pub(super) fn defer(&mut self, entity: &EntityId, doubt: Doubt) {
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
        let collection = self.read_all(entity).await?;
        if collection.is_entity() {
            let findings = match self.table.store.attached_table() {
                Some(_) => Box::pin(self.confirm_history(entity, &collection)).await?,
                None => self.examine(entity, &collection, None).await?,
            };
            return Ok(Some((collection.versions().len(), findings)));
        }
        // An item of an attached table that never changed has no history, which is no finding.
        let Some(key) = key else { return Ok(None) };
        let item = self.table.attached_item(key).await?;
        Ok(item.map(|_| (0, Vec::new())))
    }

    /// Audits an entity from items that were read with eventually consistent reads. Returns the findings that are certain, and defers
    /// the others, see [`Self::settle`].
    pub(super) async fn examine(
        &mut self,
        entity: &EntityId,
        seen: &Collection,
        before: Option<Before>,
    ) -> Result<Vec<Finding>, ServiceError> {
        let suspected = self.check(seen);
        if suspected.is_clean() {
            return Ok(Vec::new());
        }
        let now = self.read_again(entity, seen).await?;
        let mut found = self.check(&now);
        found.missing = found.missing.and(&suspected.missing);
        if self.lag.is_zero() {
            return Ok(found.findings());
        }
        let highest = seen.highest().max(now.highest());
        let is_stable = |(known, _, rounds): &Before| *known == highest || *rounds >= MAX_ROUNDS;
        if found.is_counter_doubtful() && !before.as_ref().is_some_and(is_stable) {
            let (missing, rounds) = (found.missing, before.map_or(0, |(_, _, rounds)| rounds + 1));
            let doubt = Doubt::Counter {
                highest,
                missing,
                rounds,
            };
            self.defer(entity, doubt);
            return Ok(Vec::new());
        }
        if let Some(Ok(latest)) = now.latest_version() {
            let (_, known, _) = before.unwrap_or_default();
            // The others can still be in the stream.
            let versions = found.missing.without(&known);
            found.missing = found.missing.and(&known);
            if !versions.is_empty() {
                self.defer(entity, Doubt::Missing { latest, versions });
            }
        }
        Ok(found.findings())
    }

    /// Reads the floor, the latest item, and the versions that do not fit them, with strongly consistent reads.
    async fn read_again(&self, entity: &EntityId, seen: &Collection) -> Result<Collection, ServiceError> {
        let mut now = self.read_counter(entity).await?;
        now.has_padded = seen.has_padded;
        if seen.quarantined > 0 {
            now.quarantined = self.table.quarantined(entity).await?;
        }
        if seen.uncounted_floor().is_some() {
            self.read_versions(entity, &mut now).await?;
            return Ok(now);
        }
        let unfit = self.check(&Collection {
            latest: now.latest.clone(),
            floor: now.floor,
            ..seen.clone()
        });
        let newest = match now.latest_version() {
            Some(Ok(latest)) => Some(latest),
            _ => seen.highest(),
        };
        let newest: VersionSet = newest.into_iter().map(Version::get).collect();
        let sets = [&unfit.missing, &unfit.strays, &unfit.orphans, &unfit.unpruned, &newest];
        let doubtful: Vec<_> = sets.into_iter().flat_map(VersionSet::ranges).collect();
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
            Doubt::Counter {
                highest,
                missing,
                rounds,
            } => {
                let seen = self.read_all(&entity).await?;
                self.examine(&entity, &seen, Some((highest, missing, rounds))).await?
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

    pub(super) fn check(&self, items: &Collection) -> Discrepancies {
        let store = &self.table.store;
        items.check(store.digits(), store.clock().now())
    }

    /// Reads floor, versions and quarantine of an entity, and its latest item unless other programs write it.
    pub(super) async fn read_all(&self, entity: &EntityId) -> Result<Collection, ServiceError> {
        let mut all = Collection::default();
        self.read_item(entity, FLOOR_KEY, &mut all).await?;
        self.read_versions(entity, &mut all).await?;
        all.quarantined += self.table.quarantined(entity).await?;
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
        let store = &self.table.store;
        for keys in store.digits().version_keys(versions.numbers()).chunks(MAX_KEYS) {
            let items = self.table.send(async |store| store.batch_get(entity, keys, true).await);
            for item in items.await? {
                into.add(item, store);
            }
        }
        Ok(())
    }

    async fn read_versions(&self, entity: &EntityId, into: &mut Collection) -> Result<(), ServiceError> {
        if self.table.store.has_own_history() && self.table.store.attached_table().is_none() {
            self.read_item(entity, LATEST_KEY, into).await?;
        }
        let add = |item| into.add(item, &self.table.store);
        self.table.each_version(entity, add).await
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn deferred_checks_are_read_as_they_were_written() {
        for (json, expected) in [
            (json!({"ID": "E", "Latest": 1, "Versions": [[3, 4]]}), "Missing"),
            // The state file of an earlier release.
            (json!({"ID": "E", "Head": 1, "Versions": [[3, 4]]}), "Missing"),
            (
                json!({"ID": "E", "Highest": null, "Missing": [[3, 4]], "Rounds": 2}),
                "Counter",
            ),
            (json!({"ID": "E", "Highest": 1, "Missing": [], "Rounds": 0}), "Counter"),
            (json!({"ID": "E", "First": 1, "Newest": 2, "Rounds": 2}), "Item"),
        ] {
            let check: DeferredCheck = serde_json::from_value(json.clone()).unwrap();
            assert!(format!("{:?}", check.doubt).starts_with(expected), "{check:?}");
            let written = serde_json::to_string(&check).unwrap();
            assert_eq!(
                written.replace("Latest", "Head"),
                json.to_string().replace("Latest", "Head")
            );
        }
    }
}
