//! Purge: deletes an entity with all its items. Nothing else deletes versions or a latest item.
//!
//! The latest item is deleted last, on condition that it has not changed since it was read first: an interrupted purge keeps
//! the counter and can be repeated, and no concurrent update is lost unnoticed.

use std::{collections::BTreeMap, time::Duration};

use aws_sdk_dynamodb::{
    error::BuildError,
    operation::{
        batch_write_item::builders::BatchWriteItemInputBuilder,
        delete_item::{DeleteItemError, builders::DeleteItemInputBuilder},
        query::builders::QueryInputBuilder,
    },
    types::{AttributeValue, DeleteRequest, WriteRequest},
};
use thiserror::Error;

use crate::{
    domain::{
        Item,
        entity::EntityId,
        keys::{ItemKind, LATEST_KEY},
        names,
    },
    dynamodb::{
        Store,
        client::error::{ErrorKind, ServiceError},
        read::query_items::Cursor,
        s,
    },
};

/// Maximum number of deletions in a request, see
/// [`BatchWriteItem`](https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_BatchWriteItem.html).
pub const MAX_DELETIONS: usize = 25;
/// Maximum number of rounds, if the entity is written concurrently.
const MAX_ROUNDS: u32 = 5;
/// Maximum number of consecutive responses without a deletion before the request counts as throttled.
const MAX_EMPTY_RESPONSES: u32 = 6;
/// Wait before unprocessed deletions are requested again; it doubles.
const INITIAL_WAIT: Duration = Duration::from_millis(50);

/// Number of items of each kind.
pub type ItemCounts = BTreeMap<ItemKind, u64>;

impl Store {
    /// Counts the items of an entity by kind.
    ///
    /// # Errors
    ///
    /// Returns [`ServiceError`] if a request fails.
    pub async fn count_items(&self, entity: &EntityId) -> Result<ItemCounts, ServiceError> {
        let mut counts = ItemCounts::new();
        for key in self.sort_keys(entity).await? {
            *counts.entry(self.digits.kind_of(&key)).or_default() += 1;
        }
        Ok(counts)
    }

    /// Deletes every item of an entity, and adds the deleted items to `deleted`. A version whose stream record is not
    /// processed yet can still be put afterwards.
    ///
    /// # Errors
    ///
    /// Returns [`PurgeError::Service`] if a request fails, [`PurgeError::WrittenAgain`] if the entity is written concurrently.
    pub async fn purge(&self, entity: &EntityId, deleted: &mut ItemCounts) -> Result<(), PurgeError> {
        let mut is_gone = false;
        for _ in 0..MAX_ROUNDS {
            let latest = self.get(entity, LATEST_KEY, true).await?;
            if is_gone && latest.is_some() {
                return Err(PurgeError::WrittenAgain);
            }
            let mut keys = self.sort_keys(entity).await?;
            if keys.is_empty() {
                return Ok(());
            }
            keys.retain(|key| key != LATEST_KEY);
            for keys in keys.chunks(MAX_DELETIONS) {
                self.batch_delete(entity, keys).await?;
                for key in keys {
                    *deleted.entry(self.digits.kind_of(key)).or_default() += 1;
                }
            }
            if let Some(latest) = latest
                && self.delete_latest(entity, &latest).await?
            {
                is_gone = true;
                *deleted.entry(ItemKind::Latest).or_default() += 1;
            }
        }
        Err(PurgeError::WrittenAgain)
    }

    async fn sort_keys(&self, entity: &EntityId) -> Result<Vec<String>, ServiceError> {
        let (mut keys, mut start) = (Vec::new(), None);
        loop {
            let request = keys_request(entity, start, &self.table);
            let output = request.send_with(&self.client).await;
            let page = output.map_err(|error| ServiceError::new("Query", &error))?;
            let found = page.items.unwrap_or_default().into_iter();
            keys.extend(found.filter_map(|mut item| match item.remove(names::SK) {
                Some(AttributeValue::S(key)) => Some(key),
                _ => None,
            }));
            start = page.last_evaluated_key.filter(|key| !key.is_empty());
            if start.is_none() {
                return Ok(keys);
            }
        }
    }

    async fn batch_delete(&self, entity: &EntityId, keys: &[String]) -> Result<(), ServiceError> {
        const OPERATION: &str = "BatchWriteItem";
        let not_built = |_| ServiceError::not_built(OPERATION);
        let mut left = deletions(entity, keys).map_err(not_built)?;
        let mut empty_responses = 0;
        loop {
            let requested = left.len();
            let request = batch_request(left, &self.table);
            let output = request.send_with(&self.client).await;
            let output = output.map_err(|error| ServiceError::new(OPERATION, &error))?;
            let unprocessed = output.unprocessed_items.unwrap_or_default().remove(&self.table);
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
                return Err(ServiceError::not_built(OPERATION).with_reason(
                    ErrorKind::Throttled,
                    "UnprocessedItems",
                    None,
                ));
            }
            tokio::time::sleep(INITIAL_WAIT * (1 << empty_responses)).await;
        }
    }

    async fn delete_latest(&self, entity: &EntityId, seen: &Item) -> Result<bool, ServiceError> {
        let request = latest_request(entity, seen, &self.table);
        match request.send_with(&self.client).await {
            Ok(_) => Ok(true),
            Err(error) => match error.as_service_error() {
                Some(DeleteItemError::ConditionalCheckFailedException(_)) => Ok(false),
                _ => Err(ServiceError::new("DeleteItem", &error)),
            },
        }
    }
}

/// Builds the request for one page of an entity's keys.
pub fn keys_request(entity: &EntityId, start: Option<Cursor>, table: &str) -> QueryInputBuilder {
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

/// Builds the request that deletes the latest item, if it still has the version that was read.
pub fn latest_request(entity: &EntityId, seen: &Item, table: &str) -> DeleteItemInputBuilder {
    let request = DeleteItemInputBuilder::default()
        .table_name(table)
        .key(names::PK, s(entity.as_str()))
        .key(names::SK, s(LATEST_KEY))
        .expression_attribute_names("#latest", names::LATEST);
    match seen.get(names::LATEST) {
        Some(latest) => request
            .condition_expression("#latest = :seen")
            .expression_attribute_values(":seen", latest.clone().into()),
        None => request.condition_expression("attribute_not_exists(#latest)"),
    }
}

/// Reason why an entity was not purged.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PurgeError {
    /// A request failed.
    #[error("failed to delete the entity")]
    Service(#[from] ServiceError),
    /// Another client is writing the entity.
    #[error(
        "it is being written: its items were deleted, and another client created it again; stop its writers, and purge it again"
    )]
    WrittenAgain,
}
