//! Reading versions: the latest, one by its number, one by its time, and how far history has come.

use std::collections::HashSet;

use thiserror::Error;

use crate::{
    clock,
    domain::{
        Item,
        audit::floor_of,
        entity::EntityId,
        keys::FLOOR_KEY,
        marks::is_expired,
        time::EpochMillis,
        version::Version,
        version_item::{InvalidImage, latest_of},
        view::{NoTime, VersionView},
    },
    dynamodb::{Store, client::error::ServiceError, read::batch_get_items::MAX_KEYS},
};

/// How far the history of an entity has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lag {
    /// The latest version.
    pub latest: Version,
    /// Newest version that is stored in history, `None` if there is none yet.
    pub through: Option<Version>,
}

impl Store {
    /// The latest version, tombstone or not. `None` where there is no such entity.
    pub async fn latest(&self, entity: &EntityId, consistent: bool) -> Result<Option<VersionView>, ReadError> {
        let Some(item) = self.get(entity, &self.digits.latest_key(), consistent).await? else {
            return Ok(None);
        };
        let version = latest_of(&item)?;
        Ok(Some(VersionView::new(entity.clone(), version, item)))
    }

    /// One version by its number, tombstone or not. While the stream has not caught up, the latest item answers for the
    /// version it is.
    pub async fn version(
        &self,
        entity: &EntityId,
        version: Version,
        consistent: bool,
    ) -> Result<Option<VersionView>, ReadError> {
        match self.version_item(entity, version, consistent).await? {
            Some(item) => Ok(Some(VersionView::new(entity.clone(), version, item))),
            None => Ok(self
                .latest(entity, consistent)
                .await?
                .filter(|latest| latest.version == version)),
        }
    }

    /// The version that was the latest at a time: the newest whose own time is not later.
    ///
    /// Versions are dense, so it is found by halving: log2 N reads and one of the latest item. Times must not go backwards from
    /// one version to the next, which [`Ordering::Time`](crate::domain::update::Ordering::Time) ensures. Where it comes upon a
    /// version that was pruned, it reads the floor, one read more, and looks from there on. What is left below the floor
    /// answers only where the version after it was seen too.
    pub async fn as_of(
        &self,
        entity: &EntityId,
        time: EpochMillis,
        consistent: bool,
    ) -> Result<Option<VersionView>, ReadError> {
        let Some(latest) = self.latest(entity, consistent).await? else {
            return Ok(None);
        };
        if time_of(&latest)? <= time {
            return Ok(Some(latest));
        }
        // Every version below `low` is not later, or was pruned; every version from `high` on is later.
        let (mut low, mut high) = (1, latest.version.get());
        let (mut found, mut pruned) = (None, None);
        while low < high {
            let Some(middle) = Version::new(low + (high - low) / 2) else {
                break;
            };
            match self.timed(entity, middle, consistent).await {
                Ok((view, own)) if own <= time => (low, found) = (middle.get() + 1, Some(view)),
                Ok(_) => high = middle.get(),
                Err(ReadError::Service(error)) => return Err(error.into()),
                Err(unknown) => {
                    let floor = self.floor(entity, consistent).await?;
                    if floor <= middle {
                        return Err(unknown);
                    }
                    (low, found, pruned) = (floor.get(), None, Some(floor));
                }
            }
        }
        match (found, pruned) {
            (None, Some(floor)) => Err(ReadError::Pruned { floor }),
            // Without a floor, version 1 was looked at, and is later.
            (found, _) => Ok(found),
        }
    }

    /// A version item and its time.
    async fn timed(
        &self,
        entity: &EntityId,
        version: Version,
        consistent: bool,
    ) -> Result<(VersionView, EpochMillis), ReadError> {
        let item = self.version_item(entity, version, consistent).await?;
        let view = VersionView::new(entity.clone(), version, item.ok_or(ReadError::Missing { version })?);
        let time = time_of(&view)?;
        Ok((view, time))
    }

    /// Where the history of an entity begins: 1, unless it was pruned. Below, only pinned versions are left.
    pub async fn floor(&self, entity: &EntityId, consistent: bool) -> Result<Version, ServiceError> {
        let item = self.get(entity, FLOOR_KEY, consistent).await?;
        Ok(item.as_ref().and_then(floor_of).unwrap_or(Version::FIRST))
    }

    /// How far history has come behind the latest item. `None` where there is no such entity.
    ///
    /// The newest [`MAX_KEYS`] versions are looked at one by one. What is missing below them is taken to be missing from the
    /// end: where the oldest of them is not there, it looks 1, 2, 4, … versions further back, and halves what it skipped.
    /// A single gap far back is found by no such look, only by reading history.
    pub async fn lag(&self, entity: &EntityId) -> Result<Option<Lag>, ReadError> {
        let Some(latest) = self.latest(entity, true).await? else {
            return Ok(None);
        };
        let head = latest.version;
        let floor = self.floor(entity, true).await?.get();
        let newest = head.get().saturating_sub(MAX_KEYS as u64 - 1).max(floor)..=head.get();
        let oldest = *newest.start();
        let keys = self.digits.version_keys(newest.clone());
        let found = self.batch_get(entity, &keys, true).await?;
        let found: HashSet<_> = found
            .iter()
            .filter_map(|item| self.digits.version_of_item(item))
            .collect();
        let missing = newest.filter_map(Version::new).find(|version| !found.contains(version));
        let through = match missing.map(Version::get) {
            None => head.get(),
            Some(missing) if missing > oldest => missing - 1,
            Some(missing) => self.last_before(entity, floor, missing).await?,
        };
        Ok(Some(Lag {
            latest: head,
            through: Version::new(through),
        }))
    }

    /// The last version that is there before a missing one, the one before the floor for none.
    async fn last_before(&self, entity: &EntityId, floor: u64, missing: u64) -> Result<u64, ReadError> {
        // Every version up to `low` is taken to be there, `high` is not.
        let (mut low, mut high, mut step) = (floor - 1, missing, 1);
        while low + 1 < high {
            let probe = if step > 0 {
                high.saturating_sub(step).max(low + 1)
            } else {
                low + (high - low) / 2
            };
            let Some(version) = Version::new(probe) else { break };
            if self.version_item(entity, version, true).await?.is_some() {
                low = probe;
                step = 0;
            } else {
                high = probe;
                step *= 2;
            }
        }
        Ok(low)
    }

    pub(crate) async fn version_item(
        &self,
        entity: &EntityId,
        version: Version,
        consistent: bool,
    ) -> Result<Option<Item>, ServiceError> {
        let item = self.get(entity, &self.digits.version_key(version), consistent).await?;
        Ok(item.filter(|item| !is_expired(item, clock::since_epoch())))
    }
}

fn time_of(view: &VersionView) -> Result<EpochMillis, ReadError> {
    view.time().map_err(|source| ReadError::NoTime {
        version: view.version,
        source,
    })
}

/// Why versions could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ReadError {
    /// A request failed.
    #[error("failed to read the table")]
    Service(#[from] ServiceError),
    /// The latest item carries no version that can be read.
    #[error("the latest item makes no version")]
    Latest(#[from] InvalidImage),
    /// A version that has to be looked at is not there: history lags, or has a gap.
    #[error("version {version} is not in the history yet")]
    Missing {
        /// Which.
        version: Version,
    },
    /// The version of that time was pruned.
    #[error("it was pruned: history begins at version {floor}")]
    Pruned {
        /// Where history begins.
        floor: Version,
    },
    /// A version cannot be ordered by time.
    #[error("the time of version {version} is not known")]
    NoTime {
        /// Which.
        version: Version,
        /// Why.
        source: NoTime,
    },
}
