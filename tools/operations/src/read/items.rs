//! All items of an entity: `Query`, page by page, then sorted by their kind. Or of a table and its history: `Scan`.
//!
//! | order | kind | within the kind |
//! |---|---|---|
//! | 1 | metadata | |
//! | 2 | latest item | |
//! | 3 | version items | by version |
//! | 4 | states | by time |
//! | 5 | parts, the floor, quarantined records, requests, all others, in this order | by sort key |
//!
//! The order of the sort keys is another one: `v10` sorts before `v9`.

use std::time::Duration;

use aws_sdk_dynamodb::operation::query::builders::QueryFluentBuilder;
use shared::{
    domain::{
        Item,
        entity::EntityId,
        keys::{ItemKind, VersionDigits, sort_key_of},
        marks::is_expired,
        names,
        time::timestamp,
        version::Version,
    },
    dynamodb::{Store, client::error::ServiceError, s},
};

use crate::version_set::VersionSet;

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
        let query = query(store, entity, table).consistent_read(consistent);
        let mut pages = query.into_paginator().send();
        while let Some(page) = pages.next().await {
            let page = page.map_err(|error| ServiceError::new("Query", &error))?;
            items.extend(store.flat_all(page.items.into_iter().flatten(), table).await?);
            progress(items.len() as u64);
        }
    }
    Ok(collect(items, store.digits(), store.clock().now()))
}

/// Reads the sort keys of an entity, consistently. It consumes the read units of the whole items.
pub async fn sort_keys(store: &Store, entity: &EntityId) -> Result<Vec<String>, ServiceError> {
    let mut keys = Vec::new();
    for table in store.tables() {
        let query = query(store, entity, table)
            .consistent_read(true)
            .projection_expression("#sk")
            .expression_attribute_names("#sk", names::SK);
        let mut items = query.into_paginator().items().send();
        while let Some(item) = items.next().await {
            let item = item.map_err(|error| ServiceError::new("Query", &error))?;
            keys.extend(sort_key_of(&item.into()).map(str::to_owned));
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

/// Reads the whole table, and its history table if there is one, with strongly consistent reads.
pub async fn scan_items(store: &Store) -> Result<Vec<Item>, ServiceError> {
    let mut items = Vec::new();
    for table in store.tables() {
        let scan = store.client().scan().table_name(table).consistent_read(true);
        let found = scan.into_paginator().items().send().collect::<Result<Vec<_>, _>>();
        let found = found.await.map_err(|error| ServiceError::new("Scan", &error))?;
        items.extend(store.flat_all(found, table).await?);
    }
    Ok(items)
}

fn query(store: &Store, entity: &EntityId, table: &str) -> QueryFluentBuilder {
    let query = store.client().query().table_name(table);
    query
        .key_condition_expression("#pk = :pk")
        .expression_attribute_names("#pk", names::PK)
        .expression_attribute_values(":pk", s(entity.as_str()))
}

fn collect(items: Vec<Item>, digits: VersionDigits, now: Duration) -> ItemCollection {
    let mut collection = ItemCollection::default();
    for mut item in items {
        if is_expired(&item, now) {
            collection.expired += 1;
            continue;
        }
        item.remove(names::PK);
        let sort_key = sort_key_of(&item).map(str::to_owned);
        item.remove(names::SK);
        if let Some(sort_key) = sort_key {
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
        (item.kind, version, time, item.sort_key.clone())
    });
    collection
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn items_are_sorted_by_kind_then_by_version_or_time() {
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
        let item = |key: &str| serde_json::from_value(json!({"PK": {"S": "E"}, "SK": {"S": key}})).unwrap();
        let expired = json!({"PK": {"S": "E"}, "SK": {"S": "v2"}, "TTL": {"N": "1"}});
        let mut items: Vec<Item> = expected.map(item).into();
        items.push(serde_json::from_value(expired).unwrap());
        // In the order of the sort keys, as DynamoDB returns them.
        items.sort_by(|one, other| sort_key_of(one).cmp(&sort_key_of(other)));
        let collection = collect(items, VersionDigits::default(), Duration::from_secs(1));
        let sorted: Vec<_> = collection.items.iter().map(|item| item.sort_key.as_str()).collect();
        assert_eq!(sorted, expected);
        assert_eq!(collection.expired, 1);
    }
}
