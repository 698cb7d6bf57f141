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
//!
//! The item of an attached table belongs to other programs, and stays. Its writers need not stop: a change after the purge begins a
//! new history, with the state before it as its baseline. If versions from before the purge came first, history begins after
//! them: their numbers are below the floor.

use std::{cell::RefCell, collections::BTreeMap, time::Duration};

use aws_sdk_dynamodb::{
    error::BuildError,
    operation::{
        batch_write_item::builders::BatchWriteItemInputBuilder, delete_item::builders::DeleteItemInputBuilder,
        put_item::builders::PutItemInputBuilder,
    },
    types::{DeleteRequest, WriteRequest},
};
use thiserror::Error;
use tokio::time::Instant;

use shared::{
    domain::{
        Item,
        attached::item::late_key_of,
        entity::EntityId,
        keys::{ItemKind, LATEST_KEY, sort_key_of},
        names,
        purge_marker::{PurgeMarker, SORT_KEY},
        version::Version,
        version_item::latest_of,
    },
    dynamodb::{Store, client::error::ServiceError, s},
};

use crate::{
    condition::outcome, prune::requests::raise_floor, rate_limit::RateLimiter, read::paced::Paced,
    read::sort_keys::sort_keys,
};

/// Maximum number of deletions in a request, see
/// [`BatchWriteItem`](https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_BatchWriteItem.html).
pub const MAX_DELETIONS: usize = 25;
/// Wait of a purge, by default: the age of a record that is put without a check, the longest invocation of stream-fn (60 s),
/// and the difference between clocks.
pub const DEFAULT_WAIT: Duration = Duration::from_secs(90);
/// Maximum number of checks after the latest item is deleted, while items of a slow writer arrive.
const MAX_CHECKS: u32 = 5;
/// Maximum number of attempts to write the marker, if the entity is purged concurrently.
const MAX_MARKER_ATTEMPTS: u32 = 5;

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
    for key in sort_keys(store, entity).await? {
        *counts.entry(store.digits().kind_of(&key)).or_default() += 1;
    }
    Ok(counts)
}

/// Deletes every item of an entity, of an attached table its history, and adds the deleted items to `deleted`. `wait` is the time
/// between the purge marker and the last check: [`DEFAULT_WAIT`], or zero if nothing reads the table's stream. `on_wait` is called
/// when the wait begins, with its remaining duration.
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
    let is_attached = store.attached_table().is_some();
    let mut marker = PurgeMarker::new(store.now());
    let mut latest = None;
    if !is_attached {
        latest = store.get(entity, LATEST_KEY, true).await?;
        add_incarnations(store, entity, latest.as_ref(), &mut marker).await?;
    }
    mark_purged(store, entity, &marker).await?;
    let marked = Instant::now();
    // Versions of an update after the marker stay: if there is one, the purge is given up.
    let purged = latest.as_ref().and_then(|latest| latest_of(latest).ok());
    delete_others(store, entity, purged, deleted).await?;
    if !wait.is_zero() {
        let end = marked + wait;
        on_wait(end.saturating_duration_since(Instant::now()));
        tokio::time::sleep_until(end).await;
        if is_attached {
            Box::pin(delete_covered(store, entity, &marker, deleted)).await?;
        } else {
            // The versions that arrived may belong to an update after the marker.
            if !is_unchanged(latest.as_ref(), store.get(entity, LATEST_KEY, true).await?.as_ref()) {
                return Err(PurgeError::WrittenAgain);
            }
            delete_others(store, entity, None, deleted).await?;
        }
    }
    if is_attached {
        return Ok(());
    }
    if let Some(latest) = &latest {
        let request = latest_request(entity, latest, store.latest_table());
        if outcome("DeleteItem", request.send_with(store.client()).await)?.is_ok() {
            *deleted.entry(ItemKind::Latest).or_default() += 1;
        }
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

/// Writes the marker of an entity, or raises the existing one: what it covers never decreases.
///
/// # Errors
///
/// Returns [`ServiceError`] if a request fails, or if the existing item is not a valid marker.
async fn mark_purged(store: &Store, entity: &EntityId, marker: &PurgeMarker) -> Result<(), ServiceError> {
    for _ in 0..MAX_MARKER_ATTEMPTS {
        let markers = store.purge_markers([entity]).await?;
        let seen = markers.marker(entity);
        let raised = seen.map_or_else(|| marker.clone(), |seen| seen.max(marker));
        let request = marker_request(entity, &raised, seen, store.history_table());
        // If the condition fails, the response to an earlier attempt was lost, or another purge changed the marker.
        if outcome("PutItem", request.send_with(store.client()).await)?.is_ok() {
            return Ok(());
        }
    }
    let reason = "did not write the purge marker: other purges of the entity change it";
    Err(ServiceError::unusable("PutItem", reason))
}

/// Adds the latest item and all versions that history has. There are several incarnations if the latest item was deleted, or
/// overwritten by another program.
async fn add_incarnations(
    store: &Store,
    entity: &EntityId,
    latest: Option<&Item>,
    marker: &mut PurgeMarker,
) -> Result<(), ServiceError> {
    if let Some((latest, version)) = latest.and_then(|latest| Some((latest, latest_of(latest).ok()?))) {
        marker.add_latest(latest, version);
    }
    let add = |version: Item| {
        if store.digits().version_of_item(&version).is_some() {
            marker.add_version(&version);
        }
    };
    Paced::new(store, &RateLimiter::unlimited())
        .each_version(entity, add)
        .await
}

/// Deletes all items except the latest item and versions above a number, and returns the number of deleted items.
async fn delete_others(
    store: &Store,
    entity: &EntityId,
    through: Option<Version>,
    deleted: &mut ItemCounts,
) -> Result<usize, ServiceError> {
    let digits = store.digits();
    let mut keys = sort_keys(store, entity).await?;
    let is_later = |key: &str| {
        let version = digits.version_of(key).or_else(|| digits.version_of_part(key));
        version.zip(through).is_some_and(|(version, through)| version > through)
    };
    keys.retain(|key| key != LATEST_KEY && !is_later(key));
    // A version item without its parts cannot be read.
    keys.sort_by_key(|key| digits.version_of_part(key).is_some());
    for table in store.tables() {
        let of_table = keys.iter().filter(|key| store.table_of(key) == table);
        let of_table: Vec<_> = of_table.cloned().collect();
        delete(store, entity, &of_table, table, |key| {
            *deleted.entry(digits.kind_of(key)).or_default() += 1;
        })
        .await?;
    }
    Ok(keys.len())
}

/// Deletes the versions of an attached table's item from before a purge. If later ones exist, history begins with them.
async fn delete_covered(
    store: &Store,
    entity: &EntityId,
    marker: &PurgeMarker,
    deleted: &mut ItemCounts,
) -> Result<(), ServiceError> {
    let (mut covered, mut late, mut first) = (Vec::new(), Vec::new(), None);
    let add = |item: Item| match store.digits().version_of_item(&item) {
        Some(version) if marker.covers_item(&item, version) => {
            covered.extend(sort_key_of(&item).map(str::to_owned));
            late.extend(late_key_of(&item));
        }
        // Their keys sort as their versions.
        later => first = first.or(later),
    };
    Paced::new(store, &RateLimiter::unlimited())
        .each_version(entity, add)
        .await?;
    if let Some(first) = first.filter(|first| *first > Version::FIRST) {
        raise_floor(store, entity, first).await?;
    }
    let table = store.history_table();
    delete(store, entity, &covered, table, |_| {
        *deleted.entry(ItemKind::Version).or_default() += 1;
    })
    .await?;
    delete(store, entity, &late, table, |_| {}).await
}

/// Deletes the items with these sort keys, and reports each deleted one.
async fn delete(
    store: &Store,
    entity: &EntityId,
    keys: &[String],
    table: &str,
    mut deleted: impl FnMut(&String),
) -> Result<(), ServiceError> {
    const OPERATION: &str = "BatchWriteItem";
    let unlimited = Paced::new(store, &RateLimiter::unlimited());
    for keys in keys.chunks(MAX_DELETIONS) {
        let left = deletions(entity, keys).map_err(|_| ServiceError::not_built(OPERATION))?;
        let left = RefCell::new(left);
        // Unprocessed deletions are requested again, as throttled ones are.
        let delete = async |store: &Store| {
            let request = batch_request(left.borrow().clone(), table);
            let output = request.send_with(store.client()).await;
            let output = output.map_err(|error| ServiceError::new(OPERATION, &error))?;
            let unprocessed = output.unprocessed_items.unwrap_or_default().remove(table);
            match unprocessed.filter(|unprocessed| !unprocessed.is_empty()) {
                Some(unprocessed) => {
                    left.replace(unprocessed);
                    Err(ServiceError::unprocessed(OPERATION))
                }
                None => Ok(()),
            }
        };
        unlimited.send(delete).await?;
        keys.iter().for_each(&mut deleted);
    }
    Ok(())
}

/// Builds the request that writes a marker, on condition that it has not changed since it was read. `seen` is the existing one.
pub fn marker_request(
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
    let [at, purged] = seen.attributes();
    request = request.condition_expression("#at = :at AND #purged = :purged");
    for (placeholder, (name, value)) in [("at", at), ("purged", purged)] {
        request = request
            .expression_attribute_names(format!("#{placeholder}"), name)
            .expression_attribute_values(format!(":{placeholder}"), value.into());
    }
    request
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
