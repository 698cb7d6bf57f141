//! Audit of entities. Discrepancies are read again with strongly consistent reads before they are reported.
//!
//! Stream records may not be processed yet, so two kinds of discrepancies are read once more after the lag:
//!
//! - Missing versions are gaps only if they are still missing.
//! - If the counter does not fit the versions, or there is none, a repair continues from the highest version. That is known
//!   only when no higher version arrived during the lag. Otherwise the entity is read again after another lag.
//!
//! ```no_run
//! # async fn example(store: shared::dynamodb::Store) -> Result<(), Box<dyn std::error::Error>> {
//! use std::time::Duration;
//! use shared::domain::entity::EntityId;
//!
//! let equipment = EntityId::new("Equipment#1")?;
//! for finding in operations::audit::auditor::audit(&store, &equipment, Duration::from_secs(60)).await?.unwrap_or_default() {
//!     println!("{}", finding.to_json(&equipment));
//! }
//! # Ok(())
//! # }
//! ```

use std::{collections::VecDeque, time::Duration};

use tokio::time::Instant;

use crate::{
    audit::{
        collection::{Collection, Discrepancies, Finding},
        deferred::{DeferredCheck, DoubtfulCounter, MissingVersions, entity_of},
    },
    rate_limit::RateLimiter,
};
use shared::{
    domain::{
        Item,
        attached::selection::Selection,
        entity::EntityId,
        keys::{FLOOR_KEY, LATEST_KEY},
        version::Version,
        version_item::InvalidImage,
        version_set::VersionSet,
    },
    dynamodb::{Store, client::error::ServiceError},
};

/// Maximum number of times that an entity is read again because its highest version changes.
pub(crate) const MAX_ROUNDS: u32 = 5;

/// Audits entities of a table. What can change while the stream is behind is deferred for the lag, and then read again.
#[derive(Debug)]
pub struct Auditor {
    pub(super) store: Store,
    pub(super) limiter: RateLimiter,
    pub(super) lag: Duration,
    /// Items of an attached table that have a history.
    pub(super) selection: Selection,
    deferred: VecDeque<Deferred>,
}

#[derive(Debug, Clone)]
struct Deferred {
    check: DeferredCheck,
    due: Instant,
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
        let deferred = deferred.into_iter().map(|check| Deferred { check, due });
        Self {
            selection: store.attached_table().map(Selection::new).unwrap_or_default(),
            store,
            limiter,
            lag,
            deferred: deferred.collect(),
        }
    }

    /// Returns the deferred checks.
    pub fn deferred(&self) -> Vec<DeferredCheck> {
        self.deferred.iter().map(|deferred| deferred.check.clone()).collect()
    }

    /// Returns the number of deferred checks.
    pub fn waiting(&self) -> usize {
        self.deferred.len()
    }

    /// Returns `true` if the first deferred check can be settled without waiting.
    pub fn is_due(&self) -> bool {
        self.deferred.front().is_some_and(|first| first.due <= Instant::now())
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
        if self.store.attached_table().is_some() {
            return Box::pin(self.attached_entity(entity, key)).await;
        }
        let mut collection = Collection::default();
        self.read_item(entity, FLOOR_KEY, &mut collection).await?;
        self.read_versions(entity, &mut collection).await?;
        self.read_quarantined(entity, &mut collection).await?;
        if !collection.is_entity() {
            return Ok(None);
        }
        let findings = self.examine(entity, &collection).await?;
        Ok(Some((collection.versions().len(), findings)))
    }

    /// Audits an entity from items that were read with eventually consistent reads. What may change within the lag is
    /// deferred, see [`Self::settle`].
    ///
    /// # Errors
    ///
    /// Returns [`ServiceError`] if a request fails.
    pub async fn examine(&mut self, entity: &EntityId, seen: &Collection) -> Result<Vec<Finding>, ServiceError> {
        let Confirmed {
            mut found,
            highest,
            latest,
        } = self.confirm(entity, seen).await?;
        if self.lag.is_zero() {
            return Ok(found.findings());
        }
        if found.is_counter_doubtful() {
            self.defer(DeferredCheck::Counter(DoubtfulCounter {
                id: entity.as_str().to_owned(),
                highest,
                missing: found.missing,
                rounds: 0,
            }));
            return Ok(Vec::new());
        }
        if let Some(latest) = latest {
            self.defer_missing(entity, latest, std::mem::take(&mut found.missing));
        }
        Ok(found.findings())
    }

    /// Reads suspected discrepancies again, with strongly consistent reads.
    async fn confirm(&self, entity: &EntityId, seen: &Collection) -> Result<Confirmed, ServiceError> {
        let digits = self.store.digits();
        let suspected = seen.check(digits, self.store.clock().now());
        let mut found = Discrepancies::default();
        if suspected.is_clean() && !seen.is_uncompared() {
            return Ok(Confirmed {
                found,
                highest: seen.highest(),
                latest: None,
            });
        }
        let mut now = Collection::default();
        self.read_item(entity, FLOOR_KEY, &mut now).await?;
        self.read_item(entity, LATEST_KEY, &mut now).await?;
        if suspected.quarantined > 0 {
            self.read_quarantined(entity, &mut now).await?;
        }
        found.quarantined = now.quarantined();
        if suspected.uncounted_floor.is_some() {
            self.read_versions(entity, &mut now).await?;
            found.uncounted_floor = now.uncounted_floor();
        }
        let latest = now.latest_version();
        match latest {
            None => {
                self.read_selected(entity, seen.versions(), &mut now).await?;
                found.no_version = suspected.no_version.filter(|_| seen.is_padded());
                if found.uncounted_floor.is_none() {
                    found.orphans = seen.versions().and(now.versions());
                }
            }
            Some(Err(why)) => {
                found.no_version = Some(why);
                if why == InvalidImage::NoLatest && found.uncounted_floor.is_none() {
                    self.read_selected(entity, seen.versions(), &mut now).await?;
                    found.orphans = seen.versions().and(now.versions());
                }
            }
            Some(Ok(latest)) => {
                let (floor, latest) = (now.floor().get(), latest.get());
                let missing = suspected.missing.within(floor, latest);
                let strays = latest
                    .checked_add(1)
                    .map_or_else(VersionSet::default, |beyond| seen.versions().within(beyond, u64::MAX));
                let unpruned = match latest < floor {
                    true => VersionSet::default(),
                    false => seen.unsettled().within(1, floor - 1),
                };
                let doubtful = [&missing, &strays, &unpruned, &VersionSet::from_iter([latest])];
                let doubtful: VersionSet =
                    VersionSet::from(doubtful.into_iter().flat_map(VersionSet::ranges).collect::<Vec<_>>());
                self.read_selected(entity, &doubtful, &mut now).await?;
                found.missing = missing.without(now.versions());
                found.strays = strays.and(now.versions());
                found.unpruned = unpruned.and(&now.unsettled());
                let checked = now.check(digits, self.store.clock().now());
                (found.latest_differs, found.ahead) = (checked.latest_differs, checked.ahead);
            }
        }
        Ok(Confirmed {
            found,
            highest: seen.highest().max(now.highest()),
            latest: latest.and_then(Result::ok),
        })
    }

    fn defer_missing(&mut self, entity: &EntityId, latest: Version, versions: VersionSet) {
        if !versions.is_empty() {
            let id = entity.as_str().to_owned();
            self.defer(DeferredCheck::Missing(MissingVersions { id, latest, versions }));
        }
    }

    pub(super) fn defer(&mut self, check: DeferredCheck) {
        let due = Instant::now() + self.lag;
        self.deferred.push_back(Deferred { check, due });
    }

    /// Waits for the lag, and decides the check that was deferred first. There are no findings if it is deferred again. `None`
    /// if nothing is deferred.
    ///
    /// # Errors
    ///
    /// Returns [`ServiceError`] if a request fails.
    pub async fn settle(&mut self) -> Result<Option<EntityFindings>, ServiceError> {
        let Some(first) = self.deferred.front().cloned() else {
            return Ok(None);
        };
        tokio::time::sleep_until(first.due).await;
        let audited = match first.check {
            DeferredCheck::Missing(missing) => self.settle_missing(missing).await?,
            DeferredCheck::Counter(counter) => self.settle_counter(counter).await?,
            DeferredCheck::Item(item) => self.settle_item(item).await?,
        };
        self.deferred.pop_front();
        Ok(Some(audited))
    }

    async fn settle_missing(&mut self, missing: MissingVersions) -> Result<EntityFindings, ServiceError> {
        let MissingVersions { id, latest, versions } = missing;
        let entity = entity_of(&id)?;
        let mut now = Collection::default();
        self.read_item(&entity, FLOOR_KEY, &mut now).await?;
        self.read_item(&entity, LATEST_KEY, &mut now).await?;
        let mut findings = Vec::new();
        // The counter has changed, and versions before the change can still be on their way.
        let is_set_back = |counted: Result<Version, InvalidImage>| counted.is_ok_and(|counted| counted < latest);
        if now
            .latest_version()
            .is_some_and(|counted| counted.is_err() || is_set_back(counted))
        {
            let examined = self.entity(&entity, None).await?;
            findings.extend(examined.into_iter().flat_map(|(_, findings)| findings));
            return Ok(EntityFindings { entity, findings });
        }
        // An entity that was purged in the meantime has no gaps.
        if let Some(counted) = now.latest_version() {
            self.read_selected(&entity, &versions, &mut now).await?;
            // It can also have been purged and created again.
            let through = counted.map_or(latest, |counted| counted.min(latest));
            let gaps = versions
                .within(now.floor().get(), through.get())
                .without(now.versions());
            let found = Discrepancies {
                missing: gaps,
                ..Discrepancies::default()
            };
            findings = found.findings();
            if !versions.and(now.versions()).is_empty() {
                let first = versions.ranges().next().map_or(1, |(first, _)| first);
                let through = first - 1;
                findings.push(Finding::Lagging { through, latest });
            }
        }
        Ok(EntityFindings { entity, findings })
    }

    async fn settle_counter(&mut self, before: DoubtfulCounter) -> Result<EntityFindings, ServiceError> {
        let entity = entity_of(&before.id)?;
        let mut seen = Collection::default();
        self.read_item(&entity, FLOOR_KEY, &mut seen).await?;
        self.read_versions(&entity, &mut seen).await?;
        self.read_quarantined(&entity, &mut seen).await?;
        let Confirmed {
            mut found,
            highest,
            latest,
        } = self.confirm(&entity, &seen).await?;
        if found.is_counter_doubtful() && highest != before.highest && before.rounds < MAX_ROUNDS {
            let (missing, rounds) = (found.missing, before.rounds + 1);
            self.defer(DeferredCheck::Counter(DoubtfulCounter {
                highest,
                missing,
                rounds,
                ..before
            }));
            let findings = Vec::new();
            return Ok(EntityFindings { entity, findings });
        }
        if let Some(latest) = latest {
            let missing = std::mem::take(&mut found.missing);
            found.missing = missing.and(&before.missing);
            // A writer has added them since.
            self.defer_missing(&entity, latest, missing.without(&before.missing));
        }
        Ok(EntityFindings {
            entity,
            findings: found.findings(),
        })
    }
}
