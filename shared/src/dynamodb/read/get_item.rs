//! One item by its key: `GetItem`.

use aws_sdk_dynamodb::operation::get_item::builders::GetItemInputBuilder;

use crate::{
    domain::{Item, entity::EntityId, names},
    dynamodb::{Store, client::error::ServiceError, s},
};

const OPERATION: &str = "GetItem";

impl Store {
    /// Reads the item of an entity with this sort key.
    ///
    /// # Errors
    ///
    /// Returns [`ServiceError`] if a request fails.
    pub async fn get(&self, entity: &EntityId, sort_key: &str, consistent: bool) -> Result<Option<Item>, ServiceError> {
        let request = request(entity, sort_key, consistent, &self.table);
        let output = request.send_with(&self.client).await;
        let output = output.map_err(|error| ServiceError::new(OPERATION, &error))?;
        Ok(output.item.map(Item::from))
    }
}

/// Builds the request.
pub fn request(entity: &EntityId, sort_key: &str, consistent: bool, table: &str) -> GetItemInputBuilder {
    GetItemInputBuilder::default()
        .table_name(table)
        .key(names::PK, s(entity.as_str()))
        .key(names::SK, s(sort_key))
        .consistent_read(consistent)
}
