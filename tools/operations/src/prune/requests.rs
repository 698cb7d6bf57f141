//! Requests of pruning: raise the floor of a history, and mark a version below it with a `TTL`, or pin it.

use std::{iter, time::Duration};

use aws_sdk_dynamodb::{
    operation::{
        transact_write_items::builders::TransactWriteItemsInputBuilder, update_item::builders::UpdateItemInputBuilder,
    },
    types::{AttributeValue, ReturnValuesOnConditionCheckFailure, TransactWriteItem, Update},
};

use crate::condition::outcome;
use shared::{
    domain::{entity::EntityId, keys::FLOOR_KEY, layout, names, version::Version},
    dynamodb::{Store, cancellation, client::error::ServiceError, expression::Expression, n, s},
};

const OPERATION: &str = "UpdateItem";

/// Raises the first version of an entity's history, unless it is higher already.
///
/// # Errors
///
/// Returns [`ServiceError`] if a request fails.
pub async fn raise_floor(store: &Store, entity: &EntityId, floor: Version) -> Result<(), ServiceError> {
    let request = floor_request(entity, floor, store.history_table());
    outcome(OPERATION, request.send_with(store.client()).await).map(drop)
}

/// Builds the request that raises the floor.
pub(crate) fn floor_request(entity: &EntityId, floor: Version, table: &str) -> UpdateItemInputBuilder {
    let mut raised = Expression::default();
    raised
        .set("#floor = :floor")
        .condition("attribute_not_exists(#floor) OR #floor < :floor")
        .name("#floor", names::FLOOR)
        .value(":floor", n(floor));
    update(raised, entity, FLOOR_KEY, table)
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
    let (table, key) = (store.history_table(), store.digits().version_key(version));
    let request = mark_request(entity, &key, mark, table);
    let stored = match outcome(OPERATION, request.send_with(store.client()).await)? {
        Ok(_) => return Ok(true),
        Err(stored) => stored.filter(|stored| stored.contains_key(names::PARTS)),
    };
    let Some(stored) = stored else { return Ok(false) };
    // All parts expire at the same time.
    let parts = layout::part_keys(&stored).into_iter().map(|key| (key, mark.of_part()));
    let mut request = TransactWriteItemsInputBuilder::default();
    for (key, marked) in iter::once((key, mark.of_version())).chain(parts) {
        let update = Update::builder()
            .table_name(table)
            .key(names::PK, s(entity.as_str()))
            .key(names::SK, s(key));
        let update = marked.apply_to_transaction(update).build();
        let update = update.map_err(|_| ServiceError::not_built(cancellation::OPERATION))?;
        request = request.transact_items(TransactWriteItem::builder().update(update).build());
    }
    match request.send_with(store.client()).await {
        Ok(_) => Ok(true),
        Err(error) if cancellation::condition_failed(&error) => Ok(false),
        Err(error) => Err(cancellation::service_error(&error)),
    }
}

/// Builds the request that marks a version, unless it can have [parts](shared::domain::layout) that must be marked too. If it has, the
/// response contains the item.
pub(crate) fn mark_request(entity: &EntityId, key: &str, mark: Mark, table: &str) -> UpdateItemInputBuilder {
    let mut marked = mark.of_version();
    if mark != Mark::Unpinned {
        marked
            .condition("attribute_not_exists(#parts)")
            .name("#parts", names::PARTS);
    }
    update(marked, entity, key, table)
        .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
}

impl Mark {
    /// Returns the change of a version item.
    fn of_version(self) -> Expression {
        let mut marked = Expression::default();
        marked.condition("attribute_exists(#pk)").name("#pk", names::PK);
        marked.name("#pinned", names::PINNED);
        match self {
            Self::Expires(at) => marked
                .condition("attribute_not_exists(#ttl) AND attribute_not_exists(#pinned)")
                .set("#ttl = :expires")
                .name("#ttl", names::TTL)
                .value(":expires", n(at.as_secs())),
            Self::Pinned { now } => marked
                .condition("(attribute_not_exists(#ttl) OR #ttl > :now)")
                .set("#pinned = :true")
                .remove("#ttl")
                .name("#ttl", names::TTL)
                .value(":true", AttributeValue::Bool(true))
                .value(":now", n(now.as_secs())),
            Self::Unpinned => marked.remove("#pinned"),
        };
        marked
    }

    /// Returns the change of a further part of a version.
    fn of_part(self) -> Expression {
        let mut marked = Expression::default();
        marked.condition("attribute_exists(#pk)").name("#pk", names::PK);
        marked.name("#ttl", names::TTL);
        match self {
            Self::Expires(at) => marked.set("#ttl = :expires").value(":expires", n(at.as_secs())),
            Self::Pinned { .. } | Self::Unpinned => marked.remove("#ttl"),
        };
        marked
    }
}

fn update(change: Expression, entity: &EntityId, sort_key: &str, table: &str) -> UpdateItemInputBuilder {
    let request = UpdateItemInputBuilder::default()
        .table_name(table)
        .key(names::PK, s(entity.as_str()))
        .key(names::SK, s(sort_key));
    change.apply_to_request(request)
}
