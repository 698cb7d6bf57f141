//! Pruning: raises the floor of a history, then marks the versions below it with a `TTL`.
//!
//! An interrupted run can be repeated: it marks the versions below the floor that are not marked yet.

use std::time::Duration;

use aws_sdk_dynamodb::{
    error::BuildError,
    operation::{
        transact_write_items::builders::TransactWriteItemsInputBuilder, update_item::builders::UpdateItemInputBuilder,
    },
    types::{AttributeValue, ReturnValuesOnConditionCheckFailure, TransactWriteItem, Update},
};

use crate::{
    audit::collection::Collection,
    condition::outcome,
    prune::plan::{Keep, Plan, plan},
    rate_limit::RateLimiter,
    read::paced::Paced,
};
use shared::{
    domain::{
        Item,
        entity::EntityId,
        keys::{FLOOR_KEY, LATEST_KEY, VersionDigits},
        layout, names,
        version::Version,
    },
    dynamodb::{Store, cancellation, client::error::ServiceError, n, read::versions::ReadError, s},
};

const OPERATION: &str = "UpdateItem";

/// Reads an entity, and plans its pruning. `None` if the entity does not exist.
///
/// # Errors
///
/// Returns [`ReadError::Service`] if a request fails, [`ReadError::Latest`] if the latest item has no valid version.
pub async fn plan_prune(
    store: &Store,
    entity: &EntityId,
    keep: Keep,
    over_gaps: bool,
    limiter: &RateLimiter,
) -> Result<Option<Plan>, ReadError> {
    let (table, mut seen) = (Paced::new(store, limiter), Collection::default());
    // In a table without a history of its own, the latest item is among the versions.
    let has_latest_item = store.has_own_history() && store.attached_table().is_none();
    for key in [FLOOR_KEY].into_iter().chain(has_latest_item.then_some(LATEST_KEY)) {
        if let Some(item) = table.get(entity, key).await? {
            seen.add(item, store);
        }
    }
    table.each_version(entity, |item| seen.add(item, store)).await?;
    Ok(plan(&seen, keep, over_gaps)?)
}

/// Raises the first version of an entity's history, unless it is higher already.
///
/// # Errors
///
/// Returns [`ServiceError`] if a request fails.
pub async fn raise_floor(store: &Store, entity: &EntityId, floor: Version) -> Result<(), ServiceError> {
    let request = floor_request(entity, floor, store.history_table());
    outcome(OPERATION, request.send_with(store.client()).await).map(drop)
}

/// Marks a version with all its items. Returns `false` if the version is missing, or if its marks exclude this one.
///
/// # Errors
///
/// Returns [`ServiceError`] if a request fails.
pub async fn mark_version(
    store: &Store,
    entity: &EntityId,
    version: Version,
    mark: Mark,
) -> Result<bool, ServiceError> {
    let (table, digits) = (store.history_table(), store.digits());
    let request = mark_request(entity, version, mark, table, digits);
    let stored = match outcome(OPERATION, request.send_with(store.client()).await)? {
        Ok(_) => return Ok(true),
        Err(stored) => stored.filter(|stored| stored.contains_key(names::PARTS)),
    };
    let Some(stored) = stored else { return Ok(false) };
    let request = mark_together_request(entity, version, &stored, mark, table, digits);
    let request = request.map_err(|_| ServiceError::not_built(cancellation::OPERATION))?;
    match request.send_with(store.client()).await {
        Ok(_) => Ok(true),
        Err(error) if cancellation::condition_failed(&error) => Ok(false),
        Err(error) => Err(cancellation::service_error(&error)),
    }
}

/// Mark of a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// It expires at this time since 1970, unless it is marked or pinned.
    Expires(Duration),
    /// Pruning keeps it, unless it has expired at this time since 1970.
    Pinned {
        /// Time since 1970.
        now: Duration,
    },
    /// Pruning can remove it.
    Unpinned,
}

/// Builds the request that raises the floor.
pub fn floor_request(entity: &EntityId, floor: Version, table: &str) -> UpdateItemInputBuilder {
    update(entity, FLOOR_KEY, table)
        .update_expression("SET #floor = :floor")
        .condition_expression("attribute_not_exists(#floor) OR #floor < :floor")
        .expression_attribute_names("#floor", names::FLOOR)
        .expression_attribute_values(":floor", n(floor))
}

/// Builds the request that marks a version, unless it can have [parts](shared::domain::layout) that must be marked too. If it has, the
/// response contains the item.
pub fn mark_request(
    entity: &EntityId,
    version: Version,
    mark: Mark,
    table: &str,
    digits: VersionDigits,
) -> UpdateItemInputBuilder {
    let request = marked(update(entity, &digits.version_key(version), table), mark);
    if mark == Mark::Unpinned {
        return request;
    }
    let condition = request.get_condition_expression().clone().unwrap_or_default();
    request
        .condition_expression(format!("{condition} AND attribute_not_exists(#parts)"))
        .expression_attribute_names("#parts", names::PARTS)
        .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
}

/// Builds the request that marks a stored version and its further parts. They expire at the same time.
///
/// # Errors
///
/// Returns [`BuildError`] if the SDK rejects a part.
pub fn mark_together_request(
    entity: &EntityId,
    version: Version,
    stored: &Item,
    mark: Mark,
    table: &str,
    digits: VersionDigits,
) -> Result<TransactWriteItemsInputBuilder, BuildError> {
    let parts = layout::part_keys(stored).into_iter().map(|key| {
        let part = update(entity, &key, table)
            .condition_expression("attribute_exists(#pk)")
            .expression_attribute_names("#pk", names::PK)
            .expression_attribute_names("#ttl", names::TTL);
        match mark {
            Mark::Expires(at) => part
                .update_expression("SET #ttl = :expires")
                .expression_attribute_values(":expires", n(at.as_secs())),
            Mark::Pinned { .. } | Mark::Unpinned => part.update_expression("REMOVE #ttl"),
        }
    });
    let version = marked(update(entity, &digits.version_key(version), table), mark);
    let mut request = TransactWriteItemsInputBuilder::default();
    for update in [version].into_iter().chain(parts) {
        request = request.transact_items(in_transaction(&update)?);
    }
    Ok(request)
}

/// Adds a mark to the update of a version item.
fn marked(item: UpdateItemInputBuilder, mark: Mark) -> UpdateItemInputBuilder {
    let item = item
        .expression_attribute_names("#pk", names::PK)
        .expression_attribute_names("#pinned", names::PINNED);
    match mark {
        Mark::Expires(at) => item
            .update_expression("SET #ttl = :expires")
            .condition_expression(
                "attribute_exists(#pk) AND attribute_not_exists(#ttl) AND attribute_not_exists(#pinned)",
            )
            .expression_attribute_names("#ttl", names::TTL)
            .expression_attribute_values(":expires", n(at.as_secs())),
        Mark::Pinned { now } => item
            .update_expression("SET #pinned = :true REMOVE #ttl")
            .condition_expression("attribute_exists(#pk) AND (attribute_not_exists(#ttl) OR #ttl > :now)")
            .expression_attribute_names("#ttl", names::TTL)
            .expression_attribute_values(":true", AttributeValue::Bool(true))
            .expression_attribute_values(":now", n(now.as_secs())),
        Mark::Unpinned => item
            .update_expression("REMOVE #pinned")
            .condition_expression("attribute_exists(#pk)"),
    }
}

fn update(entity: &EntityId, sort_key: &str, table: &str) -> UpdateItemInputBuilder {
    UpdateItemInputBuilder::default()
        .table_name(table)
        .key(names::PK, s(entity.as_str()))
        .key(names::SK, s(sort_key))
}

fn in_transaction(update: &UpdateItemInputBuilder) -> Result<TransactWriteItem, BuildError> {
    let update = Update::builder()
        .set_table_name(update.get_table_name().clone())
        .set_key(update.get_key().clone())
        .set_update_expression(update.get_update_expression().clone())
        .set_condition_expression(update.get_condition_expression().clone())
        .set_expression_attribute_names(update.get_expression_attribute_names().clone())
        .set_expression_attribute_values(update.get_expression_attribute_values().clone())
        .build()?;
    Ok(TransactWriteItem::builder().update(update).build())
}
