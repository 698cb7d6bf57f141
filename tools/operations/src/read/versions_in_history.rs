//! Existence of versions in history: `BatchGetItem` of the keys only.

use std::collections::HashSet;

use shared::{
    domain::{entity::EntityId, keys::partition_key_of, names, version::Version},
    dynamodb::{Store, client::error::ServiceError, read::batch_get_items::MAX_KEYS},
};

/// Returns the entities whose version is stored in history. Each entity has one version. It sends one request per
/// [`MAX_KEYS`] versions.
///
/// # Errors
///
/// Returns [`ServiceError`] if a request fails.
pub async fn versions_in_history(
    store: &Store,
    versions: &[(EntityId, Version)],
    consistent: bool,
) -> Result<HashSet<EntityId>, ServiceError> {
    let mut recorded = HashSet::new();
    for versions in versions.chunks(MAX_KEYS) {
        let keys = versions
            .iter()
            .map(|(entity, version)| (entity, store.digits().version_key(*version)));
        for item in store.batch_get_only(&[names::PK], keys, consistent).await? {
            recorded.extend(partition_key_of(&item).and_then(|id| EntityId::new(id).ok()));
        }
    }
    Ok(recorded)
}
