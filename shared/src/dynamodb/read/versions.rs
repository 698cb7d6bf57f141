//! Reads of single versions: the latest, and by number.

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
    dynamodb::{Store, client::error::ServiceError},
};

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
    #[error("the latest item has no Latest, which `vzero admin repair ID` adds")]
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
