//! Definition of an attached table, stored beside its history: the item with `PK` `#vzero`, `SK` `attached`, and the attribute
//! `Definition`, the [JSON](crate::domain::attached::AttachedTable::to_json) of the file of `local --attach`.
//!
//! So a reader who knows only the history table has the key schema and the settings. stream-fn writes the item when it starts.

use aws_sdk_dynamodb::operation::put_item::builders::PutItemInputBuilder;

use crate::{
    domain::{
        attached::AttachedTable,
        attributes::text,
        entity::{EntityId, RESERVED},
        names,
    },
    dynamodb::{Store, client::error::ServiceError, s},
};

/// Sort key of the definition.
pub const SORT_KEY: &str = "attached";
/// Attribute with the JSON.
pub const DEFINITION: &str = "Definition";

impl Store {
    /// Stores the definition of the attached table in its history table. Does nothing for another table.
    ///
    /// # Errors
    ///
    /// Returns [`ServiceError`] if the request fails.
    pub async fn put_definition(&self) -> Result<(), ServiceError> {
        if let Some(table) = self.attached_table() {
            let output = request(table, self.history_table()).send_with(&self.client).await;
            output.map_err(|error| ServiceError::new("PutItem", &error))?;
        }
        Ok(())
    }

    /// Reads the definition that this table stores as the history table of an attached one. `None` if it stores none.
    ///
    /// # Errors
    ///
    /// Returns [`ServiceError`] if the request fails.
    pub async fn stored_definition(&self) -> Result<Option<String>, ServiceError> {
        let item = self.get(&EntityId::reserved(), SORT_KEY, true).await?;
        Ok(item.and_then(|item| text(&item, DEFINITION).map(str::to_owned)))
    }
}

fn request(table: &AttachedTable, history: &str) -> PutItemInputBuilder {
    let request = PutItemInputBuilder::default().table_name(history);
    request
        .item(names::PK, s(RESERVED))
        .item(names::SK, s(SORT_KEY))
        .item(DEFINITION, s(table.to_json().to_string()))
}
