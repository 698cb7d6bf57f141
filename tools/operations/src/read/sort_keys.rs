//! Sort keys of all items of an entity: `Query` with a projection, page by page. It consumes the read units of the whole items.

use aws_sdk_dynamodb::operation::query::builders::QueryInputBuilder;

use shared::{
    domain::{AttributeValue, Item, entity::EntityId, names, version::Version},
    dynamodb::{Store, client::error::ServiceError, read::query_items::Cursor, s},
};

use crate::version_set::VersionSet;

/// Reads the sort keys of an entity, consistently.
pub async fn sort_keys(store: &Store, entity: &EntityId) -> Result<Vec<String>, ServiceError> {
    let mut keys = Vec::new();
    for table in store.tables() {
        let mut start = None;
        loop {
            let output = request(entity, start, table).send_with(store.client()).await;
            let page = output.map_err(|error| ServiceError::new("Query", &error))?;
            for item in page.items.unwrap_or_default() {
                if let Some(AttributeValue::S(key)) = Item::from(item).remove(names::SK) {
                    keys.push(key);
                }
            }
            start = page.last_evaluated_key.filter(|key| !key.is_empty());
            if start.is_none() {
                break;
            }
        }
    }
    Ok(keys)
}

/// Reads which versions an entity has, consistently.
pub(crate) async fn stored_versions(store: &Store, entity: &EntityId) -> Result<VersionSet, ServiceError> {
    let keys = sort_keys(store, entity).await?;
    let versions = keys.iter().filter_map(|key| store.digits().version_of(key));
    Ok(versions.map(Version::get).collect())
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
