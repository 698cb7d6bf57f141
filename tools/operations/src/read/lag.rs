//! How far the history of an entity lags behind its latest item.

use std::collections::HashSet;

use shared::{
    domain::{entity::EntityId, version::Version},
    dynamodb::{
        Store,
        read::{batch_get_items::MAX_KEYS, versions::ReadError},
    },
};

/// Lag of an entity's history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lag {
    /// Latest version.
    pub latest: Version,
    /// Newest version that is stored in history, `None` if there is none yet.
    pub through: Option<Version>,
}

/// Determines how far history lags behind the latest item. `None` if the entity does not exist.
///
/// It reads the newest [`MAX_KEYS`] versions. If the oldest of them is missing, it searches 1, 2, 4, … versions further
/// back, and continues with binary search. It does not detect a single gap further back; an audit does.
///
/// # Errors
///
/// Returns [`ReadError::Service`] if a request fails, [`ReadError::Latest`] if the latest item has no valid version.
pub async fn lag(store: &Store, entity: &EntityId) -> Result<Option<Lag>, ReadError> {
    let Some((latest, _)) = store.newest(entity, true).await? else {
        return Ok(None);
    };
    let floor = store.floor(entity, true).await?.get();
    let newest = latest.get().saturating_sub(MAX_KEYS as u64 - 1).max(floor)..=latest.get();
    let oldest = *newest.start();
    let keys = store.digits().version_keys(newest.clone());
    let found = store.batch_get(entity, &keys, true).await?;
    let found: HashSet<_> = found
        .iter()
        .filter_map(|item| store.digits().version_of_item(item))
        .collect();
    let missing = newest.filter_map(Version::new).find(|version| !found.contains(version));
    let through = match missing.map(Version::get) {
        None => latest.get(),
        Some(missing) if missing > oldest => missing - 1,
        Some(missing) => last_before(store, entity, floor, missing).await?,
    };
    Ok(Some(Lag {
        latest,
        through: Version::new(through),
    }))
}

/// Returns the last stored version before a missing one, the one before the floor if there is none.
async fn last_before(store: &Store, entity: &EntityId, floor: u64, missing: u64) -> Result<u64, ReadError> {
    // Every version up to `low` is assumed to exist, `high` is missing.
    let (mut low, mut high, mut step) = (floor - 1, missing, 1);
    while low + 1 < high {
        let probe = if step > 0 {
            high.saturating_sub(step).max(low + 1)
        } else {
            low + (high - low) / 2
        };
        let Some(version) = Version::new(probe) else { break };
        if store.version_item(entity, version, true).await?.is_some() {
            low = probe;
            step = 0;
        } else {
            high = probe;
            step = step.saturating_mul(2);
        }
    }
    Ok(low)
}
