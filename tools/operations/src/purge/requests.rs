//! Requests of a purge. An item is changed only if it is still as it was read.

use std::collections::{BTreeMap, HashMap};

use aws_sdk_dynamodb::{
    operation::batch_write_item::builders::BatchWriteItemInputBuilder,
    types::{DeleteRequest, WriteRequest},
};

use shared::{
    domain::{
        AttributeValue, Item,
        attributes::s,
        entity::EntityId,
        erased::Erasures,
        keys::{FLOOR_KEY, LATEST_KEY},
        names,
        purge_marker::{PurgeMarker, SORT_KEY},
    },
    dynamodb::{client::error::ServiceError, expression::Expression, key, write::Write},
};

use crate::hold::unless_held;

/// Maximum number of deletions in a request, see
/// [`BatchWriteItem`](https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_BatchWriteItem.html).
pub(crate) const MAX_DELETIONS: usize = 25;
pub(super) const OPERATION: &str = "BatchWriteItem";

/// Attributes of a latest item that tell its version from any other, also of a later entity with the same key.
pub(super) const OF_VERSION: [&str; 3] = [names::LATEST, names::RECORDED_AT, names::INCARNATION];

/// Returns the condition that attributes of the stored item have these values, or do not exist.
fn unchanged(seen: impl IntoIterator<Item = (&'static str, Option<AttributeValue>)>) -> Expression {
    let mut unchanged = Expression::default();
    for (name, value) in seen {
        unchanged.name(format!("#{name}"), name);
        match value {
            Some(value) => unchanged
                .condition(format!("#{name} = :{name}"))
                .value(format!(":{name}"), value.into()),
            None => unchanged.condition(format!("attribute_not_exists(#{name})")),
        };
    }
    unchanged
}

/// What the item of a purge marker has: the last purge, and what was erased.
#[derive(Debug, Clone, Default)]
pub(crate) struct Marker {
    pub(crate) purge: Option<PurgeMarker>,
    pub(crate) erasures: Erasures,
}

impl Marker {
    fn attributes(&self) -> BTreeMap<&'static str, AttributeValue> {
        let purge = self.purge.iter().flat_map(PurgeMarker::attributes);
        purge.chain(self.erasures.attribute()).collect()
    }
}

/// Returns the put of a marker. `seen` is what the existing item has, nothing if there is none.
pub(crate) fn put_marker(entity: &EntityId, marker: &Marker, seen: &Marker, table: &str) -> Write {
    let keys = [
        (names::PK, s(entity.of_purge_marker().as_str())),
        (names::SK, s(SORT_KEY)),
    ];
    let members = keys.into_iter().chain(marker.attributes());
    let item: HashMap<_, _> = members.map(|(name, value)| (name.to_owned(), value)).collect();
    let mut seen = seen.attributes();
    let attributes = [names::PURGED_AT, names::PURGED, names::ERASURES];
    let condition = unchanged(attributes.map(|name| (name, seen.remove(name))));
    Write::put(table, Item::from(item), condition)
}

/// Builds the deletions of items with these sort keys.
pub(crate) fn deletions(entity: &EntityId, sort_keys: &[&str]) -> Result<Vec<WriteRequest>, ServiceError> {
    let deletion = |sort_key: &&str| {
        let delete = DeleteRequest::builder()
            .set_key(Some(key(entity.as_str(), *sort_key)))
            .build();
        let delete = delete.map_err(|_| ServiceError::not_built(OPERATION))?;
        Ok(WriteRequest::builder().delete_request(delete).build())
    };
    sort_keys.iter().map(deletion).collect()
}

/// Builds the request with at most [`MAX_DELETIONS`] deletions.
pub(crate) fn batch_request(deletions: Vec<WriteRequest>, table: &str) -> BatchWriteItemInputBuilder {
    BatchWriteItemInputBuilder::default().request_items(table, deletions)
}

/// Returns the deletion of the item with the floor, which can have a hold.
pub(crate) fn delete_floor(entity: &EntityId, table: &str) -> Write {
    let mut condition = Expression::default();
    unless_held(&mut condition);
    Write::delete(table, key(entity.as_str(), FLOOR_KEY), condition)
}

/// Returns the deletion of the latest item.
pub(crate) fn delete_latest(entity: &EntityId, seen: &Item, table: &str) -> Write {
    let condition = unchanged(OF_VERSION.map(|name| (name, seen.get(name).cloned())));
    Write::delete(table, key(entity.as_str(), LATEST_KEY), condition)
}
