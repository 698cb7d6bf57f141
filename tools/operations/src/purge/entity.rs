//! Purge: deletes an entity with all its items. Nothing else deletes versions or a latest item.
//!
//! ```text
//! read v0 ─▶ purge marker ─▶ delete all other items ─▶ wait ─▶ delete what arrived ─▶ delete v0, if it has not changed
//! ```
//!
//! The [marker](shared::domain::purge_marker) makes stream-fn and redrives reject the purged versions. stream-fn does not read
//! it for a record that is younger than [`MAX_UNCHECKED_AGE`](shared::domain::purge_marker::MAX_UNCHECKED_AGE); during the
//! wait, the records of that age are processed.
//!
//! The latest item is deleted last: an interrupted purge keeps the counter and can be repeated, and no concurrent update is
//! lost unnoticed.

use std::{collections::BTreeMap, time::Duration};

use aws_sdk_dynamodb::{
    error::BuildError,
    operation::{
        batch_write_item::builders::BatchWriteItemInputBuilder,
        delete_item::{DeleteItemError, builders::DeleteItemInputBuilder},
    },
    types::{DeleteRequest, WriteRequest},
};
use thiserror::Error;
use tokio::time::Instant;

use shared::{
    domain::{
        Item,
        entity::EntityId,
        keys::{ItemKind, LATEST_KEY},
        names,
        purge_marker::PurgeMarker,
        version::Version,
        version_item::latest_of,
    },
    dynamodb::{
        Store,
        client::error::{ErrorKind, ServiceError},
        read::query_items::Range,
        s,
    },
};

use crate::purge::{attached::purge_attached, marker::mark_purged};

/// Maximum number of deletions in a request, see
/// [`BatchWriteItem`](https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_BatchWriteItem.html).
pub const MAX_DELETIONS: usize = 25;
/// Wait of a purge, by default: the age of a record that is put without a check, the longest invocation of stream-fn (60 s),
/// and the difference between clocks.
pub const DEFAULT_WAIT: Duration = Duration::from_secs(90);
/// Maximum number of checks after the latest item is deleted, while items of a slow writer arrive.
const MAX_CHECKS: u32 = 5;
/// Maximum number of consecutive responses without a deletion before the request counts as throttled.
const MAX_EMPTY_RESPONSES: u32 = 6;
/// Wait before unprocessed deletions are requested again; it doubles.
const INITIAL_WAIT: Duration = Duration::from_millis(50);

/// Attributes of a latest item that tell its version from any other, also of a later entity with the same key.
const OF_VERSION: [&str; 3] = [names::LATEST, names::RECORDED_AT, names::INCARNATION];

/// Number of items of each kind.
pub type ItemCounts = BTreeMap<ItemKind, u64>;

/// Counts the items of an entity by kind.
///
/// # Errors
///
/// Returns [`ServiceError`] if a request fails.
pub async fn count_items(store: &Store, entity: &EntityId) -> Result<ItemCounts, ServiceError> {
    let mut counts = ItemCounts::new();
    for key in store.sort_keys(entity).await? {
        *counts.entry(store.digits().kind_of(&key)).or_default() += 1;
    }
    Ok(counts)
}

/// Deletes every item of an entity, of an attached table its history, and adds the deleted items to `deleted`. `wait` is the time between the purge marker
/// and the last check: [`DEFAULT_WAIT`], or zero if nothing reads the table's stream. `on_wait` is called when the wait
/// begins, with its remaining duration.
///
/// # Errors
///
/// Returns [`PurgeError::Service`] if a request fails, [`PurgeError::WrittenAgain`] if the entity is written concurrently.
pub async fn purge(
    store: &Store,
    entity: &EntityId,
    wait: Duration,
    on_wait: impl FnOnce(Duration),
    deleted: &mut ItemCounts,
) -> Result<(), PurgeError> {
    if store.attached_table().is_some() {
        return Ok(Box::pin(purge_attached(store, entity, wait, on_wait, deleted)).await?);
    }
    let latest = store.get(entity, LATEST_KEY, true).await?;
    let marker = new_marker(store, entity, latest.as_ref()).await?;
    mark_purged(store, entity, &marker).await?;
    let marked = Instant::now();
    // Versions of an update after the marker stay: if there is one, the purge is given up.
    let purged = latest.as_ref().and_then(|latest| latest_of(latest).ok());
    delete_others(store, entity, purged, deleted).await?;
    if !wait.is_zero() {
        let end = marked + wait;
        on_wait(end.saturating_duration_since(Instant::now()));
        tokio::time::sleep_until(end).await;
        // The versions that arrived may belong to an update after the marker.
        if !is_unchanged(latest.as_ref(), store.get(entity, LATEST_KEY, true).await?.as_ref()) {
            return Err(PurgeError::WrittenAgain);
        }
        delete_others(store, entity, None, deleted).await?;
    }
    if let Some(latest) = &latest
        && delete_latest(store, entity, latest).await?
    {
        *deleted.entry(ItemKind::Latest).or_default() += 1;
    }
    for _ in 0..MAX_CHECKS {
        // If the condition failed, the latest item exists, unless the response to the deletion was lost.
        if store.get(entity, LATEST_KEY, true).await?.is_some() {
            return Err(PurgeError::WrittenAgain);
        }
        if delete_others(store, entity, None, deleted).await? == 0 {
            return Ok(());
        }
    }
    Err(PurgeError::WrittenAgain)
}

/// Returns the marker of a purge of the latest item and all versions that history has. There are several incarnations if the
/// latest item was deleted, or overwritten by another program.
async fn new_marker(store: &Store, entity: &EntityId, latest: Option<&Item>) -> Result<PurgeMarker, ServiceError> {
    let mut marker = PurgeMarker::new(store.now());
    if let Some((latest, version)) = latest.and_then(|latest| Some((latest, latest_of(latest).ok()?))) {
        marker.add_latest(latest, version);
    }
    let (range, mut cursor) = (Range::all_versions(None), None);
    loop {
        let (items, next) = store.query_page(entity, &range, cursor).await?;
        for item in items {
            if store.digits().version_of_item(&item).is_some() {
                marker.add_version(&item);
            }
        }
        cursor = next;
        if cursor.is_none() {
            return Ok(marker);
        }
    }
}

/// Deletes all items except the latest item and versions above a number, and returns the number of deleted items.
pub(crate) async fn delete_others(
    store: &Store,
    entity: &EntityId,
    through: Option<Version>,
    deleted: &mut ItemCounts,
) -> Result<usize, ServiceError> {
    let mut keys = store.sort_keys(entity).await?;
    let is_later = |key: &str| {
        let version = store
            .digits()
            .version_of(key)
            .or_else(|| store.digits().version_of_part(key));
        version.zip(through).is_some_and(|(version, through)| version > through)
    };
    keys.retain(|key| key != LATEST_KEY && !is_later(key));
    // A version item without its parts cannot be read.
    keys.sort_by_key(|key| store.digits().version_of_part(key).is_some());
    for table in store.tables() {
        let of_table: Vec<_> = keys
            .iter()
            .filter(|key| store.table_of(key) == table)
            .cloned()
            .collect();
        for keys in of_table.chunks(MAX_DELETIONS) {
            batch_delete(store, entity, keys, table).await?;
            for key in keys {
                *deleted.entry(store.digits().kind_of(key)).or_default() += 1;
            }
        }
    }
    Ok(keys.len())
}

pub(crate) async fn batch_delete(
    store: &Store,
    entity: &EntityId,
    keys: &[String],
    table: &str,
) -> Result<(), ServiceError> {
    const OPERATION: &str = "BatchWriteItem";
    let not_built = |_| ServiceError::not_built(OPERATION);
    let mut left = deletions(entity, keys).map_err(not_built)?;
    let mut empty_responses = 0;
    loop {
        let requested = left.len();
        let request = batch_request(left, table);
        let output = request.send_with(store.client()).await;
        let output = output.map_err(|error| ServiceError::new(OPERATION, &error))?;
        let unprocessed = output.unprocessed_items.unwrap_or_default().remove(table);
        left = unprocessed.unwrap_or_default();
        if left.is_empty() {
            return Ok(());
        }
        empty_responses = if left.len() == requested {
            empty_responses + 1
        } else {
            0
        };
        if empty_responses == MAX_EMPTY_RESPONSES {
            return Err(ServiceError::not_built(OPERATION).with_reason(ErrorKind::Throttled, "UnprocessedItems", None));
        }
        tokio::time::sleep(INITIAL_WAIT * (1 << empty_responses)).await;
    }
}

async fn delete_latest(store: &Store, entity: &EntityId, seen: &Item) -> Result<bool, ServiceError> {
    let request = latest_request(entity, seen, store.latest_table());
    match request.send_with(store.client()).await {
        Ok(_) => Ok(true),
        Err(error) => match error.as_service_error() {
            Some(DeleteItemError::ConditionalCheckFailedException(_)) => Ok(false),
            _ => Err(ServiceError::new("DeleteItem", &error)),
        },
    }
}

/// Builds the deletions of items with these sort keys.
///
/// # Errors
///
/// Returns [`BuildError`] if the SDK rejects a deletion.
pub fn deletions(entity: &EntityId, keys: &[String]) -> Result<Vec<WriteRequest>, BuildError> {
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
pub fn batch_request(deletions: Vec<WriteRequest>, table: &str) -> BatchWriteItemInputBuilder {
    BatchWriteItemInputBuilder::default().request_items(table, deletions)
}

/// Builds the request that deletes the latest item, if it is still the version that was read.
pub fn latest_request(entity: &EntityId, seen: &Item, table: &str) -> DeleteItemInputBuilder {
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

/// Returns `true` if there is no latest item, or if it is the same version as before. An expired one can be deleted meanwhile.
fn is_unchanged(before: Option<&Item>, now: Option<&Item>) -> bool {
    let version = |latest: &Item| OF_VERSION.map(|name| latest.get(name).cloned());
    now.is_none_or(|now| before.is_some_and(|before| version(before) == version(now)))
}

/// Reason why an entity was not purged.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PurgeError {
    /// A request failed.
    #[error("failed to delete the entity")]
    Service(#[from] ServiceError),
    /// Another client is writing the entity.
    #[error(
        "it is being written: the versions that it had when the purge began are deleted, and another client wrote it since; \
         stop its writers, and purge it again"
    )]
    WrittenAgain,
}
