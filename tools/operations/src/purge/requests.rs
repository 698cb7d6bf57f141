//! Requests of a purge.

use aws_sdk_dynamodb::{
    error::BuildError,
    operation::{
        batch_write_item::builders::BatchWriteItemInputBuilder, delete_item::builders::DeleteItemInputBuilder,
        put_item::builders::PutItemInputBuilder,
    },
    types::{DeleteRequest, WriteRequest},
};

use shared::{
    domain::{
        Item,
        entity::EntityId,
        keys::LATEST_KEY,
        names,
        purge_marker::{PurgeMarker, SORT_KEY},
    },
    dynamodb::s,
};

/// Maximum number of deletions in a request, see
/// [`BatchWriteItem`](https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_BatchWriteItem.html).
pub(crate) const MAX_DELETIONS: usize = 25;

/// Attributes of a latest item that tell its version from any other, also of a later entity with the same key.
pub(super) const OF_VERSION: [&str; 3] = [names::LATEST, names::RECORDED_AT, names::INCARNATION];

/// Builds the request that writes a marker, on condition that it has not changed since it was read. `seen` is the existing one.
pub(crate) fn marker_request(
    entity: &EntityId,
    marker: &PurgeMarker,
    seen: Option<&PurgeMarker>,
    table: &str,
) -> PutItemInputBuilder {
    let mut request = PutItemInputBuilder::default()
        .table_name(table)
        .item(names::PK, s(entity.of_purge_marker().as_str()))
        .item(names::SK, s(SORT_KEY));
    for (name, value) in marker.attributes() {
        request = request.item(name, value.into());
    }
    let Some(seen) = seen else {
        return request
            .condition_expression("attribute_not_exists(#pk)")
            .expression_attribute_names("#pk", names::PK);
    };
    request = request.condition_expression("#at = :at AND #purged = :purged");
    for (placeholder, (name, value)) in ["at", "purged"].into_iter().zip(seen.attributes()) {
        request = request
            .expression_attribute_names(format!("#{placeholder}"), name)
            .expression_attribute_values(format!(":{placeholder}"), value.into());
    }
    request
}

/// Builds the deletions of items with these sort keys.
pub(crate) fn deletions(entity: &EntityId, keys: &[String]) -> Result<Vec<WriteRequest>, BuildError> {
    let deletion = |key: &String| {
        let delete = DeleteRequest::builder()
            .key(names::PK, s(entity.as_str()))
            .key(names::SK, s(key))
            .build()?;
        Ok(WriteRequest::builder().delete_request(delete).build())
    };
    keys.iter().map(deletion).collect()
}

/// Builds the request with at most [`MAX_DELETIONS`] deletions.
pub(crate) fn batch_request(deletions: Vec<WriteRequest>, table: &str) -> BatchWriteItemInputBuilder {
    BatchWriteItemInputBuilder::default().request_items(table, deletions)
}

/// Builds the request that deletes the latest item, if it is still the version that was read.
pub(crate) fn latest_request(entity: &EntityId, seen: &Item, table: &str) -> DeleteItemInputBuilder {
    let mut request = DeleteItemInputBuilder::default()
        .table_name(table)
        .key(names::PK, s(entity.as_str()))
        .key(names::SK, s(LATEST_KEY));
    let mut conditions = Vec::new();
    for (placeholder, name) in ["latest", "recorded", "incarnation"].into_iter().zip(OF_VERSION) {
        request = request.expression_attribute_names(format!("#{placeholder}"), name);
        if let Some(value) = seen.get(name) {
            conditions.push(format!("#{placeholder} = :{placeholder}"));
            request = request.expression_attribute_values(format!(":{placeholder}"), value.clone().into());
        } else {
            conditions.push(format!("attribute_not_exists(#{placeholder})"));
        }
    }
    request.condition_expression(conditions.join(" AND "))
}
