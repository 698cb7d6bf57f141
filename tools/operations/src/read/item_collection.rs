//! All items of an entity: `Query`, page by page, then sorted by their kind.
//!
//! | order | kind | within the kind |
//! |---|---|---|
//! | 1 | metadata | |
//! | 2 | latest item | |
//! | 3 | version items | by version |
//! | 4 | states | by time |
//! | 5 | floor, quarantined records, requests, all others | by sort key |
//!
//! The order of the sort keys is another one: `v10` sorts before `v9`.

use std::time::Duration;

use aws_sdk_dynamodb::operation::query::builders::QueryInputBuilder;

use shared::{
    domain::{
        Item,
        entity::EntityId,
        keys::{ItemKind, VersionDigits},
        marks::is_expired,
        names,
        time::timestamp,
    },
    dynamodb::{Store, client::error::ServiceError, read::query_items::Cursor, s},
};

const OPERATION: &str = "Query";
/// Order of the kinds.
const ORDER: [&[ItemKind]; 8] = [
    &[ItemKind::Metadata],
    &[ItemKind::Latest],
    &[ItemKind::Version],
    &[ItemKind::State],
    &[ItemKind::Part, ItemKind::Floor],
    &[ItemKind::Quarantined],
    &[ItemKind::Request],
    &[ItemKind::Other],
];

/// All items of an entity.
#[derive(Clone, PartialEq, Default)]
pub struct ItemCollection {
    /// Items that have not expired, in the order of their kinds.
    pub items: Vec<CollectedItem>,
    /// Number of items that have expired, and that DynamoDB has not deleted yet.
    pub expired: u64,
}

/// One item of an entity.
#[derive(Clone, PartialEq)]
pub struct CollectedItem {
    /// Kind of the item.
    pub kind: ItemKind,
    /// Sort key of the item.
    pub sort_key: String,
    /// All attributes without the keys.
    pub attributes: Item,
}

/// Reads all items of an entity. `progress` is called with the number of items that were read so far.
///
/// # Errors
///
/// Returns [`ServiceError`] if a request fails.
pub async fn item_collection(
    store: &Store,
    entity: &EntityId,
    consistent: bool,
    mut progress: impl FnMut(u64),
) -> Result<ItemCollection, ServiceError> {
    let mut items = Vec::new();
    for table in store.tables() {
        let mut start = None;
        loop {
            let request = request(entity, consistent, start, table);
            let output = request.send_with(store.client()).await;
            let page = output.map_err(|error| ServiceError::new(OPERATION, &error))?;
            items.extend(store.flat_all(page.items.into_iter().flatten(), table).await?);
            progress(items.len() as u64);
            start = page.last_evaluated_key.filter(|key| !key.is_empty());
            if start.is_none() {
                break;
            }
        }
    }
    Ok(collect(items, store.digits(), store.clock().now()))
}

/// Builds the request for one page.
pub fn request(entity: &EntityId, consistent: bool, start: Option<Cursor>, table: &str) -> QueryInputBuilder {
    QueryInputBuilder::default()
        .table_name(table)
        .key_condition_expression("#pk = :pk")
        .expression_attribute_names("#pk", names::PK)
        .expression_attribute_values(":pk", s(entity.as_str()))
        .consistent_read(consistent)
        .set_exclusive_start_key(start)
}

fn collect(items: Vec<Item>, digits: VersionDigits, now: Duration) -> ItemCollection {
    let mut collection = ItemCollection::default();
    for mut item in items {
        if is_expired(&item, now) {
            collection.expired += 1;
            continue;
        }
        item.remove(names::PK);
        if let Some(shared::domain::AttributeValue::S(sort_key)) = item.remove(names::SK) {
            collection.items.push(CollectedItem {
                kind: digits.kind_of(&sort_key),
                sort_key,
                attributes: item,
            });
        }
    }
    collection.items.sort_by_cached_key(|item| {
        let (version, time) = match item.kind {
            ItemKind::Version => (digits.version_of(&item.sort_key), None),
            ItemKind::State => (None, timestamp(&item.sort_key).ok()),
            _ => (None, None),
        };
        let position = ORDER.iter().position(|kinds| kinds.contains(&item.kind));
        (position, version, time, item.sort_key.clone())
    });
    collection
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn items_are_sorted_by_kind_then_by_version_or_time() {
        // In the order of the sort keys.
        let keys = [
            "2020-11-12T20:04:00",
            "2020-11-12T20:04:00.5",
            "2020-11-12T20:04:00Z",
            "9",
            "Metadata",
            "floor",
            "quarantine#42",
            "request#r-1",
            "v0",
            "v007",
            "v1",
            "v10",
            "v9",
            "zone",
        ];
        let item = |key: &str| serde_json::from_value(json!({"PK": {"S": "E"}, "SK": {"S": key}})).unwrap();
        let expired = json!({"PK": {"S": "E"}, "SK": {"S": "v2"}, "TTL": {"N": "1"}});
        let mut items: Vec<Item> = keys.map(item).into();
        items.push(serde_json::from_value(expired).unwrap());
        let collection = collect(items, VersionDigits::default(), Duration::from_secs(1));
        let sorted: Vec<_> = collection.items.iter().map(|item| item.sort_key.as_str()).collect();
        let expected = [
            "Metadata",
            "v0",
            "v1",
            "v9",
            "v10",
            "2020-11-12T20:04:00",
            "2020-11-12T20:04:00Z",
            "2020-11-12T20:04:00.5",
            "floor",
            "quarantine#42",
            "request#r-1",
            "9",
            "v007",
            "zone",
        ];
        assert_eq!(sorted, expected);
        assert_eq!(collection.expired, 1);
    }
}
