//! Definition of an attached table, stored beside its history: the item with `PK` `#vzero`, `SK` `attached`, and the attribute
//! `Definition`, the [JSON](crate::domain::attached::AttachedTable::to_json) of the file of `local --attach`.
//!
//! So a reader who knows only the history table has the key schema and the settings. stream-fn writes the attribute when it starts, and leaves the
//! others.

use crate::{
    domain::{
        attributes::text,
        entity::{EntityId, RESERVED},
    },
    dynamodb::{Store, client::error::ServiceError, expression::Expression, key, s, write::Write},
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
            let mut definition = Expression::default();
            definition
                .set("#definition = :definition")
                .name("#definition", DEFINITION);
            definition.value(":definition", s(table.to_json().to_string()));
            let update = Write::update(self.history_table(), key(RESERVED, SORT_KEY), definition);
            // Without a condition, it cannot fail.
            let _ = update.without_result().send(&self.client).await?;
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
