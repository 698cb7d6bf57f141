//! Pruning: raises the floor of a history, then marks the versions below it with a `TTL`.
//!
//! An interrupted run can be repeated: it marks the versions below the floor that are not marked yet.

use std::{collections::HashMap, time::Duration};

use aws_sdk_dynamodb::{
    error::BuildError,
    operation::{
        transact_write_items::builders::TransactWriteItemsInputBuilder,
        update_item::{UpdateItemError, builders::UpdateItemInputBuilder},
    },
    types::{AttributeValue, ReturnValuesOnConditionCheckFailure, TransactWriteItem, Update},
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

use crate::{
    prune::plan::{Keep, Plan, Seen},
    rate_limit::RateLimiter,
    read::each_version::each_version,
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
    let mut seen = Seen::default();
    let floor = limiter.run(async || store.get(entity, FLOOR_KEY, true).await).await?;
    let add = |seen: &mut Seen, item| match store.attached_table() {
        Some(_) => seen.add_attached(item),
        None => seen.add(item, store.digits()),
    };
    if let Some(floor) = floor {
        add(&mut seen, floor);
    }
    if store.has_own_history() && store.attached_table().is_none() {
        let latest = limiter.run(async || store.get(entity, LATEST_KEY, true).await).await?;
        if let Some(latest) = latest {
            add(&mut seen, latest);
        }
    }
    each_version(store, limiter, entity, |item| add(&mut seen, item)).await?;
    Ok(seen.plan(keep, over_gaps)?)
}

/// Raises the first version of an entity's history, unless it is higher already.
///
/// # Errors
///
/// Returns [`ServiceError`] if a request fails.
pub async fn raise_floor(store: &Store, entity: &EntityId, floor: Version) -> Result<(), ServiceError> {
    let request = floor_request(entity, floor, store.history_table());
    condition_holds(request, store).await.map(drop)
}

/// Marks a version for deletion at a time since 1970. Returns `false` if it is missing, pinned or marked.
///
/// # Errors
///
/// Returns [`ServiceError`] if a request fails.
pub async fn mark_version(
    store: &Store,
    entity: &EntityId,
    version: Version,
    expires: Duration,
) -> Result<bool, ServiceError> {
    mark(store, entity, version, Mark::Expires(expires)).await
}

/// Pins a version, so that pruning keeps it, and removes its mark. Returns `false` if it is missing or expired.
///
/// # Errors
///
/// Returns [`ServiceError`] if a request fails.
pub async fn pin_version(
    store: &Store,
    entity: &EntityId,
    version: Version,
    now: Duration,
) -> Result<bool, ServiceError> {
    mark(store, entity, version, Mark::Pinned { now }).await
}

/// Removes a pin. Returns `false` if the version is missing.
///
/// # Errors
///
/// Returns [`ServiceError`] if a request fails.
pub async fn unpin_version(store: &Store, entity: &EntityId, version: Version) -> Result<bool, ServiceError> {
    condition_holds(
        unpin_request(entity, version, store.history_table(), store.digits()),
        store,
    )
    .await
}

/// Marks a version with all its items. Returns `false` if the condition does not hold.
async fn mark(store: &Store, entity: &EntityId, version: Version, mark: Mark) -> Result<bool, ServiceError> {
    let request = mark_request(entity, version, mark, store.history_table(), store.digits());
    let Err(error) = request.send_with(store.client()).await else {
        return Ok(true);
    };
    let stored = match error.as_service_error() {
        Some(UpdateItemError::ConditionalCheckFailedException(failure)) => failure.item().cloned(),
        _ => return Err(ServiceError::new(OPERATION, &error)),
    };
    let Some(stored) = stored
        .map(Item::from)
        .filter(|stored| stored.contains_key(names::PARTS))
    else {
        return Ok(false);
    };
    let request = mark_together_request(entity, version, &stored, mark, store.history_table(), store.digits());
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
}

/// Sends the request, and returns `true` if its condition held.
async fn condition_holds(request: UpdateItemInputBuilder, store: &Store) -> Result<bool, ServiceError> {
    match request.send_with(store.client()).await {
        Ok(_) => Ok(true),
        Err(error) => match error.as_service_error() {
            Some(UpdateItemError::ConditionalCheckFailedException(_)) => Ok(false),
            _ => Err(ServiceError::new(OPERATION, &error)),
        },
    }
}

/// Builds the request that raises the floor.
pub fn floor_request(entity: &EntityId, floor: Version, table: &str) -> UpdateItemInputBuilder {
    UpdateItemInputBuilder::default()
        .table_name(table)
        .key(names::PK, s(entity.as_str()))
        .key(names::SK, s(FLOOR_KEY))
        .update_expression("SET #floor = :floor")
        .condition_expression("attribute_not_exists(#floor) OR #floor < :floor")
        .expression_attribute_names("#floor", names::FLOOR)
        .expression_attribute_values(":floor", n(floor))
}

/// Builds the request that marks a version, unless it can have [parts](shared::domain::layout). If it has, the response contains
/// the item.
pub fn mark_request(
    entity: &EntityId,
    version: Version,
    mark: Mark,
    table: &str,
    digits: VersionDigits,
) -> UpdateItemInputBuilder {
    let expression = expression(mark);
    of_version(entity, version, table, digits)
        .update_expression(expression.update)
        .condition_expression(format!("{} AND attribute_not_exists(#parts)", expression.condition))
        .expression_attribute_names("#ttl", names::TTL)
        .expression_attribute_names("#parts", names::PARTS)
        .set_expression_attribute_values(Some(expression.values))
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
    let whole = expression(mark);
    let version = Update::builder()
        .table_name(table)
        .key(names::PK, s(entity.as_str()))
        .key(names::SK, s(digits.version_key(version)))
        .update_expression(whole.update)
        .condition_expression(whole.condition)
        .expression_attribute_names("#pk", names::PK)
        .expression_attribute_names("#pinned", names::PINNED)
        .expression_attribute_names("#ttl", names::TTL)
        .set_expression_attribute_values(Some(whole.values))
        .build()?;
    let mut request =
        TransactWriteItemsInputBuilder::default().transact_items(TransactWriteItem::builder().update(version).build());
    for key in layout::part_keys(stored) {
        let part = Update::builder()
            .table_name(table)
            .key(names::PK, s(entity.as_str()))
            .key(names::SK, s(key))
            .condition_expression("attribute_exists(#pk)")
            .expression_attribute_names("#pk", names::PK)
            .expression_attribute_names("#ttl", names::TTL);
        let part = match mark {
            Mark::Expires(at) => part
                .update_expression("SET #ttl = :expires")
                .expression_attribute_values(":expires", n(at.as_secs())),
            Mark::Pinned { .. } => part.update_expression("REMOVE #ttl"),
        };
        request = request.transact_items(TransactWriteItem::builder().update(part.build()?).build());
    }
    Ok(request)
}

/// Update of a version item.
struct MarkExpression {
    update: &'static str,
    condition: &'static str,
    values: HashMap<String, AttributeValue>,
}

fn expression(mark: Mark) -> MarkExpression {
    match mark {
        Mark::Expires(at) => MarkExpression {
            update: "SET #ttl = :expires",
            condition: "attribute_exists(#pk) AND attribute_not_exists(#ttl) AND attribute_not_exists(#pinned)",
            values: HashMap::from([(":expires".to_owned(), n(at.as_secs()))]),
        },
        Mark::Pinned { now } => MarkExpression {
            update: "SET #pinned = :true REMOVE #ttl",
            condition: "attribute_exists(#pk) AND (attribute_not_exists(#ttl) OR #ttl > :now)",
            values: HashMap::from([
                (":true".to_owned(), AttributeValue::Bool(true)),
                (":now".to_owned(), n(now.as_secs())),
            ]),
        },
    }
}

/// Builds the request that removes a pin.
pub fn unpin_request(
    entity: &EntityId,
    version: Version,
    table: &str,
    digits: VersionDigits,
) -> UpdateItemInputBuilder {
    of_version(entity, version, table, digits)
        .update_expression("REMOVE #pinned")
        .condition_expression("attribute_exists(#pk)")
}

fn of_version(entity: &EntityId, version: Version, table: &str, digits: VersionDigits) -> UpdateItemInputBuilder {
    UpdateItemInputBuilder::default()
        .table_name(table)
        .key(names::PK, s(entity.as_str()))
        .key(names::SK, s(digits.version_key(version)))
        .expression_attribute_names("#pk", names::PK)
        .expression_attribute_names("#pinned", names::PINNED)
}
