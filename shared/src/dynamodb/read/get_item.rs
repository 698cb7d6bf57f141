//! One item by its key: `GetItem`.

use aws_sdk_dynamodb::operation::get_item::builders::GetItemInputBuilder;

use crate::{
    domain::{Item, entity::EntityId, keys::LATEST_KEY},
    dynamodb::{Store, client::error::ServiceError, key},
};

const OPERATION: &str = "GetItem";

impl Store {
    /// Reads the item of an entity with this sort key.
    ///
    /// # Errors
    ///
    /// Returns [`ServiceError`] if a request fails.
    pub async fn get(&self, entity: &EntityId, sort_key: &str, consistent: bool) -> Result<Option<Item>, ServiceError> {
        if self.attached.is_some() && sort_key == LATEST_KEY {
            // Boxed, to keep the future of a read small.
            return Box::pin(self.attached_latest(entity, consistent)).await;
        }
        let table = self.table_of(sort_key);
        let item = self.get_stored(entity.as_str(), sort_key, consistent, table).await?;
        Ok(self.flat_all(item, table).await?.pop())
    }

    /// Reads an item as a table stores it: a version without its further parts.
    ///
    /// # Errors
    ///
    /// Returns [`ServiceError`] if the request fails.
    pub async fn get_stored(
        &self,
        partition_key: &str,
        sort_key: &str,
        consistent: bool,
        table: &str,
    ) -> Result<Option<Item>, ServiceError> {
        let request = request(partition_key, sort_key, consistent, table);
        let output = request.send_with(&self.client).await;
        let output = output.map_err(|error| ServiceError::new(OPERATION, &error))?;
        Ok(output.item.map(Item::from))
    }
}

/// Builds the request.
fn request(partition_key: &str, sort_key: &str, consistent: bool, table: &str) -> GetItemInputBuilder {
    GetItemInputBuilder::default()
        .table_name(table)
        .set_key(Some(key(partition_key, sort_key)))
        .consistent_read(consistent)
}
