//! Requests of a purge. An item is changed only if it is still as it was read.

use std::collections::HashMap;

use aws_sdk_dynamodb::{
    operation::{
        batch_write_item::builders::BatchWriteItemInputBuilder, delete_item::builders::DeleteItemInputBuilder,
        put_item::builders::PutItemInputBuilder,
    },
    types::{AttributeValue, DeleteRequest, WriteRequest},
};

use shared::{
    domain::{
        self, Item,
        entity::EntityId,
        keys::LATEST_KEY,
        names,
        purge_marker::{PurgeMarker, SORT_KEY},
    },
    dynamodb::{client::error::ServiceError, s},
};

/// Maximum number of deletions in a request, see
/// [`BatchWriteItem`](https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_BatchWriteItem.html).
pub(crate) const MAX_DELETIONS: usize = 25;
pub(super) const OPERATION: &str = "BatchWriteItem";

/// Attributes of a latest item that tell its version from any other, also of a later entity with the same key.
pub(super) const OF_VERSION: [&str; 3] = [names::LATEST, names::RECORDED_AT, names::INCARNATION];

type Values = HashMap<String, AttributeValue>;

/// Returns the condition that attributes of the stored item have these values, or do not exist, with its names and values.
fn unchanged(
    seen: impl IntoIterator<Item = (&'static str, Option<domain::AttributeValue>)>,
) -> (String, HashMap<String, String>, Option<Values>) {
    let (mut conditions, mut names, mut values) = (Vec::new(), HashMap::new(), Values::new());
    for (name, value) in seen {
        names.insert(format!("#{name}"), name.to_owned());
        conditions.push(match value {
            Some(_) => format!("#{name} = :{name}"),
            None => format!("attribute_not_exists(#{name})"),
        });
        values.extend(value.map(|value| (format!(":{name}"), value.into())));
    }
    (
        conditions.join(" AND "),
        names,
        Some(values).filter(|values| !values.is_empty()),
    )
}

/// Builds the request that writes a marker. `seen` is the existing one.
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
    let attributes = seen.unwrap_or(marker).attributes();
    let (condition, names, values) = unchanged(attributes.map(|(name, value)| (name, seen.map(|_| value))));
    request
        .condition_expression(condition)
        .set_expression_attribute_names(Some(names))
        .set_expression_attribute_values(values)
}

/// Builds the deletions of items with these sort keys.
pub(crate) fn deletions(entity: &EntityId, keys: &[&str]) -> Result<Vec<WriteRequest>, ServiceError> {
    let deletion = |key: &&str| {
        let delete = DeleteRequest::builder()
            .key(names::PK, s(entity.as_str()))
            .key(names::SK, s(*key))
            .build();
        let delete = delete.map_err(|_| ServiceError::not_built(OPERATION))?;
        Ok(WriteRequest::builder().delete_request(delete).build())
    };
    keys.iter().map(deletion).collect()
}

/// Builds the request with at most [`MAX_DELETIONS`] deletions.
pub(crate) fn batch_request(deletions: Vec<WriteRequest>, table: &str) -> BatchWriteItemInputBuilder {
    BatchWriteItemInputBuilder::default().request_items(table, deletions)
}

/// Builds the request that deletes the latest item.
pub(crate) fn latest_request(entity: &EntityId, seen: &Item, table: &str) -> DeleteItemInputBuilder {
    let (condition, names, values) = unchanged(OF_VERSION.map(|name| (name, seen.get(name).cloned())));
    DeleteItemInputBuilder::default()
        .table_name(table)
        .key(names::PK, s(entity.as_str()))
        .key(names::SK, s(LATEST_KEY))
        .condition_expression(condition)
        .set_expression_attribute_names(Some(names))
        .set_expression_attribute_values(values)
}
