//! Entities whose latest item is missing or has no `Latest`, although there are versions.
//!
//! An update would count from 1, and its version item would meet an existing one. A floor shows that there were versions, also
//! if all of them were pruned or deleted: an update would create a version below it. Such an entity needs a repair.
//!
//! Versions whose keys have another width would get a second history beside them. Also a latest item that counts them can be that of
//! another program: before its first update by this project, their keys are read.

use shared::{
    domain::{Item, entity::EntityId, keys::LATEST_KEY, names},
    dynamodb::Store,
};

use crate::counter::outcome::WriteError;

/// Attributes of a latest item that an update of this project has written.
const OWN: [&str; 3] = [names::RECORDED_VERSION, names::REQUEST_ID, names::RECENT_REQUESTS];

/// Returns `None` for an entity without versions, or the latest item that another writer created in the meantime.
///
/// # Errors
///
/// Returns [`WriteError::CounterMissing`] if there are versions that no latest item counts, [`WriteError::Layout`] if they have keys of
/// another width, and [`WriteError::Service`] if a request fails.
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
    Err(WriteError::CounterMissing {
        version: newest.map_or(floor, |newest| newest.max(floor)),
    })
}

/// Returns the latest item that counts the versions of an entity, if the one that was read does not. It reads only until it is known that
/// the entity has no versions.
///
/// # Errors
///
/// See [`counted_latest`].
pub(crate) async fn counted_instead(
    store: &Store,
    entity: &EntityId,
    read: Option<&Item>,
    has_no_versions: &mut bool,
) -> Result<Option<Item>, WriteError> {
    if let Some(read) = read.filter(|read| read.contains_key(names::LATEST)) {
        if !OWN.iter().any(|name| read.contains_key(*name)) {
            store.has_history(entity, true).await?;
        }
        return Ok(None);
    }
    if *has_no_versions {
        return Ok(None);
    }
    let counted = counted_latest(store, entity).await?;
    *has_no_versions = counted.is_none();
    Ok(counted)
}
