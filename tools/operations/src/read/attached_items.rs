//! Items of an attached table by their keys: `GetItem` and `BatchGetItem`.

use std::collections::HashMap;

use aws_sdk_dynamodb::operation::get_item::builders::GetItemInputBuilder;

use shared::{
    domain::{Item, attached::key, entity::EntityId},
    dynamodb::{Store, client::error::ServiceError, read::batch_get_items::Tables},
};

/// Reads the item of the attached table with these key attributes, consistently.
pub(crate) async fn attached_item(store: &Store, key: &Item) -> Result<Option<Item>, ServiceError> {
    let output = request(key, store.latest_table()).send_with(store.client()).await;
    let output = output.map_err(|error| ServiceError::new("GetItem", &error))?;
    Ok(output.item.map(Item::from))
}

/// Reads the items of the attached table with these key attributes, at most
/// [`MAX_KEYS`](shared::dynamodb::read::batch_get_items::MAX_KEYS), by the partition keys of their histories. Eventually consistent.
pub(crate) async fn attached_items(store: &Store, keys: &[Item]) -> Result<HashMap<EntityId, Item>, ServiceError> {
    let Some(table) = store.attached_table().filter(|_| !keys.is_empty()) else {
        return Ok(HashMap::new());
    };
    let keys = keys.iter().cloned().map(Into::into).collect();
    let items = store.read_all(&[], Tables::from([(store.latest_table().to_owned(), keys)]), false);
    let by_entity = |item: Item| Some((key::of_item(table, &item).ok()?, item));
    Ok(items.await?.into_iter().filter_map(by_entity).collect())
}

/// Builds the strongly consistent request for an item.
pub fn request(key: &Item, table: &str) -> GetItemInputBuilder {
    GetItemInputBuilder::default()
        .table_name(table)
        .set_key(Some(key.clone().into()))
        .consistent_read(true)
}
