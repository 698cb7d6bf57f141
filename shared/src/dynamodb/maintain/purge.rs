//! An entity deleted with all its items, for good: the only thing that deletes versions, and the only thing that deletes a latest
//! item.
//!
//! The latest item goes last, on condition that it is still the one that was read before all others: a purge that is killed
//! leaves the counter where it was, and can be run again, and no update that was answered is deleted unseen.

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
        keys::{ItemKind, VersionDigits},
        names,
    },
    dynamodb::{
        Store,
        client::error::{ErrorKind, ServiceError},
        read::query_items::Cursor,
        s,
    },
};

/// The most deletions of one request.
pub const MAX_DELETIONS: usize = 25;
/// How often it begins again because of writes in between.
const MAX_ROUNDS: u32 = 5;
/// How often in a row a request may leave everything undone before it counts as throttled.
const MAX_EMPTY_RESPONSES: u32 = 6;
/// The wait before unprocessed deletions are asked for again; it doubles.
const INITIAL_WAIT: Duration = Duration::from_millis(50);

/// How many items of each kind.
pub type ItemCounts = BTreeMap<ItemKind, u64>;

impl Store {
    /// How many items of each kind an entity has.
    pub async fn count_items(&self, entity: &EntityId) -> Result<ItemCounts, ServiceError> {
        let mut counts = ItemCounts::new();
        for key in self.sort_keys(entity).await? {
            *counts.entry(self.digits.kind_of(&key)).or_default() += 1;
        }
        Ok(counts)
    }

    /// Deletes every item of an entity, and counts what it deletes.
    ///
    /// A version whose stream record is under way can still be put afterwards.
    pub async fn purge(&self, entity: &EntityId, deleted: &mut ItemCounts) -> Result<(), PurgeError> {
        let mut is_gone = false;
        for _ in 0..MAX_ROUNDS {
            let latest = self.get(entity, &self.digits.latest_key(), true).await?;
            if is_gone && latest.is_some() {
                return Err(PurgeError::WrittenAgain);
            }
            let mut keys = self.sort_keys(entity).await?;
            if keys.is_empty() {
                return Ok(());
            }
            keys.retain(|key| *key != self.digits.latest_key());
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
            let answer = request.send_with(&self.client).await;
            let page = answer.map_err(|error| ServiceError::new("Query", &error))?;
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
            let asked = left.len();
            let request = batch_request(left, &self.table);
            let answer = request.send_with(&self.client).await;
            let output = answer.map_err(|error| ServiceError::new(OPERATION, &error))?;
            let unprocessed = output.unprocessed_items.unwrap_or_default().remove(&self.table);
            left = unprocessed.unwrap_or_default();
            if left.is_empty() {
                return Ok(());
            }
            empty_responses = if left.len() == asked { empty_responses + 1 } else { 0 };
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
        let request = latest_request(entity, seen, &self.table, self.digits);
        match request.send_with(&self.client).await {
            Ok(_) => Ok(true),
            Err(error) => match error.as_service_error() {
                Some(DeleteItemError::ConditionalCheckFailedException(_)) => Ok(false),
                _ => Err(ServiceError::new("DeleteItem", &error)),
            },
        }
    }
}

/// The request for one page of an entity's keys.
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

/// The deletions of items under these sort keys.
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

/// The request that sends them, at most [`MAX_DELETIONS`].
pub fn batch_request(deletions: Vec<WriteRequest>, table: &str) -> BatchWriteItemInputBuilder {
    BatchWriteItemInputBuilder::default().request_items(table, deletions)
}

/// The request that deletes the latest item, if it is still at the version that was seen.
pub fn latest_request(entity: &EntityId, seen: &Item, table: &str, digits: VersionDigits) -> DeleteItemInputBuilder {
    let request = DeleteItemInputBuilder::default()
        .table_name(table)
        .key(names::PK, s(entity.as_str()))
        .key(names::SK, s(digits.latest_key()))
        .expression_attribute_names("#latest", names::LATEST);
    match seen.get(names::LATEST) {
        Some(latest) => request
            .condition_expression("#latest = :seen")
            .expression_attribute_values(":seen", latest.clone().into()),
        None => request.condition_expression("attribute_not_exists(#latest)"),
    }
}

/// Why an entity is not gone.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PurgeError {
    /// A request failed.
    #[error("failed to delete the entity")]
    Service(#[from] ServiceError),
    /// Somebody goes on writing it.
    #[error(
        "it is being written: what was there is deleted, and it was begun anew; stop its writers, and purge it again"
    )]
    WrittenAgain,
}
