//! Metadata of an entity: `UpdateItem` of the item `Metadata`, which has no versions.

use std::collections::BTreeMap;

use aws_sdk_dynamodb::{operation::update_item::builders::UpdateItemInputBuilder, types::ReturnValue};
use shared::{
    domain::{Item, change::Change, entity::EntityId, names},
    dynamodb::{Store, client::error::ServiceError, expression::Expression, s},
};

const OPERATION: &str = "UpdateItem";
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
    store.check_writable(OPERATION)?;
    let mut expression = Expression::default();
    expression.changes(changes);
    let request = UpdateItemInputBuilder::default()
        .table_name(store.latest_table())
        .key(names::PK, s(entity.as_str()))
        .key(names::SK, s(SORT_KEY))
        .return_values(ReturnValue::AllNew);
    let output = expression.apply_to_request(request).send_with(store.client()).await;
    let output = output.map_err(|error| ServiceError::new(OPERATION, &error))?;
    Ok(Item::from(output.attributes.unwrap_or_default()))
}
