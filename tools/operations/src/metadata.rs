//! Metadata of an entity: `UpdateItem` of the item `Metadata`, which has no versions.

use std::collections::BTreeMap;

use shared::{
    domain::{Item, change::Change, entity::EntityId},
    dynamodb::{Store, client::error::ServiceError, expression::Expression, key, write::Write},
};

/// Sort key of the metadata.
pub const SORT_KEY: &str = "Metadata";

/// Changes the metadata of an entity, and returns the new item.
///
/// # Errors
///
/// Returns [`ServiceError`] if a request fails.
pub async fn update(
    store: &Store,
    entity: &EntityId,
    changes: &BTreeMap<String, Change>,
) -> Result<Item, ServiceError> {
    store.check_writable("UpdateItem")?;
    let mut expression = Expression::default();
    expression.changes(changes);
    let update = Write::update(store.latest_table(), key(entity.as_str(), SORT_KEY), expression);
    match update.send(store.client()).await? {
        Ok(changed) => Ok(changed.unwrap_or_default()),
        Err(_) => Err(ServiceError::unusable(
            "UpdateItem",
            "changes members of a map that is missing",
        )),
    }
}
