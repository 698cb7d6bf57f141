//! Sort keys of all items of an entity: `Query` with a projection, page by page. It consumes the read units of the whole items.

use aws_sdk_dynamodb::operation::query::builders::QueryInputBuilder;

use crate::{
    domain::{AttributeValue, Item, entity::EntityId, names, version_set::VersionSet},
    dynamodb::{Store, client::error::ServiceError, read::query_items::Cursor, s},
};

impl Store {
    /// Reads the sort keys of an entity, consistently.
    ///
    /// # Errors
    ///
    /// Returns [`ServiceError`] if a request fails.
    pub async fn sort_keys(&self, entity: &EntityId) -> Result<Vec<String>, ServiceError> {
        let mut keys = Vec::new();
        self.each_sort_key(entity, |key| keys.push(key)).await?;
        Ok(keys)
    }

    /// Reads which versions an entity has, consistently.
    ///
    /// # Errors
    ///
    /// Returns [`ServiceError`] if a request fails.
    pub(crate) async fn stored_versions(&self, entity: &EntityId) -> Result<VersionSet, ServiceError> {
        let mut versions = VersionSet::default();
        let add = |key: String| {
            if let Some(version) = self.digits.version_of(&key) {
                versions.insert(version.get());
            }
        };
        self.each_sort_key(entity, add).await?;
        Ok(versions)
    }

    async fn each_sort_key(&self, entity: &EntityId, mut take: impl FnMut(String)) -> Result<(), ServiceError> {
        for table in self.tables() {
            let mut start = None;
            loop {
                let request = request(entity, start, table);
                let output = request.send_with(&self.client).await;
                let page = output.map_err(|error| ServiceError::new("Query", &error))?;
                for item in page.items.unwrap_or_default() {
                    if let Some(AttributeValue::S(key)) = Item::from(item).remove(names::SK) {
                        take(key);
                    }
                }
                start = page.last_evaluated_key.filter(|key| !key.is_empty());
                if start.is_none() {
                    break;
                }
            }
        }
        Ok(())
    }
}

/// Builds the request for one page of an entity's keys.
pub fn request(entity: &EntityId, start: Option<Cursor>, table: &str) -> QueryInputBuilder {
    QueryInputBuilder::default()
        .table_name(table)
        .key_condition_expression("#pk = :pk")
        .projection_expression("#sk")
        .expression_attribute_names("#pk", names::PK)
        .expression_attribute_names("#sk", names::SK)
        .expression_attribute_values(":pk", s(entity.as_str()))
        .consistent_read(true)
        .set_exclusive_start_key(start)
}
