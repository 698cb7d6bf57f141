//! All items of a table and of its history: `Scan`, page by page.

use shared::{
    domain::Item,
    dynamodb::{Store, client::error::ServiceError, read::scan_items as scan},
};

const OPERATION: &str = "Scan";

/// Reads the whole table, and its history table if there is one, with strongly consistent reads.
pub async fn scan_items(store: &Store) -> Result<Vec<Item>, ServiceError> {
    let mut items = Vec::new();
    for table in store.tables() {
        let mut start = None;
        loop {
            let output = scan::request(table, start).send_with(store.client()).await;
            let page = output.map_err(|error| ServiceError::new(OPERATION, &error))?;
            items.extend(store.flat_all(page.items.into_iter().flatten(), table).await?);
            start = page.last_evaluated_key.filter(|key| !key.is_empty());
            if start.is_none() {
                break;
            }
        }
    }
    Ok(items)
}

/// Returns `true` if the table is empty.
pub async fn is_empty(store: &Store) -> Result<bool, ServiceError> {
    let request = scan::request(store.latest_table(), None).limit(1);
    let output = request.send_with(store.client()).await;
    let page = output.map_err(|error| ServiceError::new(OPERATION, &error))?;
    Ok(page.items.unwrap_or_default().is_empty())
}
