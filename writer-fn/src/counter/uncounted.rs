//! Entities whose latest item is missing or has no `Latest`, although there are versions.
//!
//! An update would count from 1, and its version item would meet an existing one. A floor shows that there were versions, also
//! if all of them were pruned or deleted: an update would create a version below it. Such an entity needs a repair.

use shared::{
    domain::{Item, entity::EntityId, keys::LATEST_KEY, names},
    dynamodb::Store,
};

use crate::counter::outcome::WriteError;

/// Returns `None` for an entity without versions, or the latest item that another writer created in the meantime.
///
/// # Errors
///
/// Returns [`WriteError::Uncounted`] if there are versions that no latest item counts, and [`WriteError::Service`] if a request
/// fails.
pub async fn counted_latest(store: &Store, entity: &EntityId) -> Result<Option<Item>, WriteError> {
    if !store.has_history(entity, true).await? {
        return Ok(None);
    }
    let latest = store.get(entity, LATEST_KEY, true).await?;
    if let Some(latest) = latest.filter(|latest| latest.contains_key(names::LATEST)) {
        return Ok(Some(latest));
    }
    let floor = store.floor(entity, true).await?;
    // Pruned versions, or a latest item at a padded key, if there is no newest one.
    let newest = store.newest_in_history(entity, true).await?.map(|(version, _)| version);
    Err(WriteError::Uncounted {
        version: newest.map_or(floor, |newest| newest.max(floor)),
    })
}
