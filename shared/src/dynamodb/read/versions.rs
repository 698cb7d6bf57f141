//! Reads of single versions: the latest, by number, and the lag of history.

use std::collections::HashSet;

use thiserror::Error;

use crate::{
    domain::{
        Item,
        entity::EntityId,
        keys::{FLOOR_KEY, LATEST_KEY, floor_of},
        marks::is_expired,
        names,
        version::Version,
        version_item::{InvalidImage, latest_of},
        view::{NoTime, VersionView},
    },
    dynamodb::{Store, client::error::ServiceError, read::batch_get_items::MAX_KEYS},
};

/// Lag of an entity's history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lag {
    /// Latest version.
    pub latest: Version,
    /// Newest version that is stored in history, `None` if there is none yet.
    pub through: Option<Version>,
}

impl Store {
    /// Reads the latest version, which can be a tombstone. `None` if the entity does not exist.
    ///
    /// # Errors
    ///
    /// Returns [`ReadError::Service`] if the request fails, [`ReadError::Latest`] or [`ReadError::Uncounted`] if the latest
    /// item has no valid version.
    pub async fn latest(&self, entity: &EntityId, consistent: bool) -> Result<Option<VersionView>, ReadError> {
        let Some(item) = self.get(entity, LATEST_KEY, consistent).await? else {
            return Ok(None);
        };
        if !item.contains_key(names::LATEST) {
            return Err(ReadError::Uncounted);
        }
        let version = latest_of(&item)?;
        Ok(Some(self.view(entity, version, item)))
    }

    /// Reads one version, which can be a tombstone. The latest item supplies its version until the version item is stored.
    ///
    /// # Errors
    ///
    /// Returns [`ReadError::Service`] if a request fails, [`ReadError::Latest`] if the latest item has no valid version.
    pub async fn version(
        &self,
        entity: &EntityId,
        version: Version,
        consistent: bool,
    ) -> Result<Option<VersionView>, ReadError> {
        match self.version_item(entity, version, consistent).await? {
            Some(item) => Ok(Some(self.view(entity, version, item))),
            None => Ok(self
                .newest_view(entity, consistent)
                .await?
                .filter(|newest| newest.version == version)),
        }
    }

    /// Reads the first version of an entity's history: 1, unless it was pruned. Below, only pinned versions remain.
    ///
    /// # Errors
    ///
    /// Returns [`ServiceError`] if the request fails.
    pub async fn floor(&self, entity: &EntityId, consistent: bool) -> Result<Version, ServiceError> {
        let item = self.get(entity, FLOOR_KEY, consistent).await?;
        Ok(item.as_ref().and_then(floor_of).unwrap_or(Version::FIRST))
    }

    /// Determines how far history lags behind the latest item. `None` if the entity does not exist.
    ///
    /// It reads the newest [`MAX_KEYS`] versions. If the oldest of them is missing, it searches 1, 2, 4, … versions further
    /// back, and continues with binary search. It does not detect a single gap further back; an audit does.
    ///
    /// # Errors
    ///
    /// Returns [`ReadError::Service`] if a request fails, [`ReadError::Latest`] if the latest item has no valid version.
    pub async fn lag(&self, entity: &EntityId) -> Result<Option<Lag>, ReadError> {
        let Some((latest, _)) = self.newest(entity, true).await? else {
            return Ok(None);
        };
        let floor = self.floor(entity, true).await?.get();
        let newest = latest.get().saturating_sub(MAX_KEYS as u64 - 1).max(floor)..=latest.get();
        let oldest = *newest.start();
        let keys = self.digits.version_keys(newest.clone());
        let found = self.batch_get(entity, &keys, true).await?;
        let found: HashSet<_> = found
            .iter()
            .filter_map(|item| self.digits.version_of_item(item))
            .collect();
        let missing = newest.filter_map(Version::new).find(|version| !found.contains(version));
        let through = match missing.map(Version::get) {
            None => latest.get(),
            Some(missing) if missing > oldest => missing - 1,
            Some(missing) => self.last_before(entity, floor, missing).await?,
        };
        Ok(Some(Lag {
            latest,
            through: Version::new(through),
        }))
    }

    /// Returns the last stored version before a missing one, the one before the floor if there is none.
    async fn last_before(&self, entity: &EntityId, floor: u64, missing: u64) -> Result<u64, ReadError> {
        // Every version up to `low` is assumed to exist, `high` is missing.
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
                step = step.saturating_mul(2);
            }
        }
        Ok(low)
    }

    /// Reads a version item, `None` if it is not in history.
    ///
    /// # Errors
    ///
    /// Returns [`ServiceError`] if a request fails.
    pub async fn version_item(
        &self,
        entity: &EntityId,
        version: Version,
        consistent: bool,
    ) -> Result<Option<Item>, ServiceError> {
        let item = self.get(entity, &self.digits.version_key(version), consistent).await?;
        Ok(item.filter(|item| !is_expired(item, self.clock.now())))
    }
}

/// Reason why a version could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ReadError {
    /// A request failed.
    #[error("failed to read the table")]
    Service(#[from] ServiceError),
    /// The latest item has no valid version.
    #[error("the latest item has no valid version")]
    Latest(#[from] InvalidImage),
    /// The latest item has no `Latest`: another client wrote it.
    #[error("the latest item has no Latest, which `vzero admin repair` adds")]
    Uncounted,
    /// A version is missing: history lags or has a gap.
    #[error("version {version} is not in the history yet")]
    Missing {
        /// Missing version.
        version: Version,
    },
    /// The version of that time was pruned.
    #[error("it was pruned: history begins at version {floor}")]
    Pruned {
        /// First version of history.
        floor: Version,
    },
    /// A version has no `RecordedAt`: an older release wrote it.
    #[error("it is not known when version {version} was recorded")]
    NotRecordedAt {
        /// Version.
        version: Version,
    },
    /// The client's time of a version cannot be read.
    #[error("the time of version {version} is not known")]
    NoTime {
        /// Version.
        version: Version,
        /// Reason.
        source: NoTime,
    },
    /// None of the versions that were read is old enough.
    #[error("none of the {read} newest versions has this time or an earlier one")]
    Limit {
        /// Number of versions that were read.
        read: u64,
    },
}
