//! Items of a table of any keys: a page of a `Scan`, and the same items again by their keys.

use std::collections::HashMap;

use aws_sdk_dynamodb::operation::scan::builders::ScanInputBuilder;

use shared::dynamodb::read::scan_items;
use shared::{
    domain::{Item, attached::AttachedTable},
    dynamodb::{
        Store,
        client::error::ServiceError,
        read::batch_get_items::{MAX_KEYS, Tables},
    },
};

const OPERATION: &str = "Scan";

/// Reads the first items of the table: one page of at most this many, and of at most 1 MB.
///
/// # Errors
///
/// Returns [`ServiceError`] if the request fails.
pub async fn sample_items(store: &Store, limit: u16) -> Result<Vec<Item>, ServiceError> {
    let output = request(store.latest_table(), limit).send_with(store.client()).await;
    let page = output.map_err(|error| ServiceError::new(OPERATION, &error))?;
    Ok(page.items.unwrap_or_default().into_iter().map(Item::from).collect())
}

/// Reads items of an attached table again. Items that were deleted are left out.
///
/// # Errors
///
/// Returns [`ServiceError`] if a request fails.
pub async fn read_again(store: &Store, table: &AttachedTable, items: &[&Item]) -> Result<Vec<Item>, ServiceError> {
    let mut found = Vec::new();
    for items in items.chunks(MAX_KEYS) {
        let keys = items.iter().map(|item| {
            let key = table
                .keys()
                .filter_map(|key| Some((key.name.clone(), item.get(&key.name)?.clone())));
            HashMap::from(Item::from(key.collect::<HashMap<_, _>>()))
        });
        let tables = Tables::from([(store.latest_table().to_owned(), keys.collect())]);
        found.extend(store.read_all(&[], tables, true).await?);
    }
    Ok(found)
}

/// Builds the request for the first page.
pub fn request(table: &str, limit: u16) -> ScanInputBuilder {
    scan_items::request(table, None).limit(limit.into())
}
