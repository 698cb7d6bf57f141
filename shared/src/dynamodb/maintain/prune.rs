//! Pruning: raises the floor of a history, then marks the versions below it with a `TTL`.
//!
//! An interrupted run can be repeated: it marks the versions below the floor that are not marked yet.

use std::time::Duration;

use aws_sdk_dynamodb::operation::update_item::{UpdateItemError, builders::UpdateItemInputBuilder};

use crate::{
    domain::{
        entity::EntityId,
        keys::{FLOOR_KEY, LATEST_KEY, VersionDigits},
        names,
        prune::{Keep, Plan, Seen},
        version::Version,
    },
    dynamodb::{
        Store,
        client::error::ServiceError,
        maintain::rate_limit::RateLimiter,
        n,
        read::{query_items::Range, versions::ReadError},
        s,
    },
};

const OPERATION: &str = "UpdateItem";

impl Store {
    /// Reads an entity, and plans its pruning. `None` if the entity does not exist.
    ///
    /// # Errors
    ///
    /// Returns [`ReadError::Service`] if a request fails, [`ReadError::Latest`] if the latest item has no valid version.
    pub async fn plan_prune(
        &self,
        entity: &EntityId,
        keep: Keep,
        over_gaps: bool,
        limiter: &RateLimiter,
    ) -> Result<Option<Plan>, ReadError> {
        let mut seen = Seen::default();
        let floor = limiter.run(async || self.get(entity, FLOOR_KEY, true).await).await?;
        let add = |seen: &mut Seen, item| match self.attached {
            Some(_) => seen.add_attached(item),
            None => seen.add(item, self.digits),
        };
        if let Some(floor) = floor {
            add(&mut seen, floor);
        }
        if self.has_own_history() && self.attached.is_none() {
            let latest = limiter.run(async || self.get(entity, LATEST_KEY, true).await).await?;
            if let Some(latest) = latest {
                add(&mut seen, latest);
            }
        }
        let range = Range::all_versions(limiter.page_limit());
        let mut cursor = None;
        loop {
            let page = limiter.run(async || self.query_page(entity, &range, cursor.clone()).await);
            let (items, next) = page.await?;
            for item in items {
                add(&mut seen, item);
            }
            cursor = next;
            if cursor.is_none() {
                break;
            }
        }
        Ok(seen.plan(keep, over_gaps)?)
    }

    /// Raises the first version of an entity's history, unless it is higher already.
    ///
    /// # Errors
    ///
    /// Returns [`ServiceError`] if a request fails.
    pub async fn raise_floor(&self, entity: &EntityId, floor: Version) -> Result<(), ServiceError> {
        let request = floor_request(entity, floor, self.history_table());
        condition_holds(request, self).await.map(drop)
    }

    /// Marks a version for deletion at a time since 1970. Returns `false` if it is missing, pinned or marked.
    ///
    /// # Errors
    ///
    /// Returns [`ServiceError`] if a request fails.
    pub async fn mark_version(
        &self,
        entity: &EntityId,
        version: Version,
        expires: Duration,
    ) -> Result<bool, ServiceError> {
        condition_holds(
            mark_request(entity, version, expires, self.history_table(), self.digits),
            self,
        )
        .await
    }

    /// Pins a version, so that pruning keeps it, and removes its mark. Returns `false` if it is missing or expired.
    ///
    /// # Errors
    ///
    /// Returns [`ServiceError`] if a request fails.
    pub async fn pin_version(&self, entity: &EntityId, version: Version, now: Duration) -> Result<bool, ServiceError> {
        condition_holds(
            pin_request(entity, version, now, self.history_table(), self.digits),
            self,
        )
        .await
    }

    /// Removes a pin. Returns `false` if the version is missing.
    ///
    /// # Errors
    ///
    /// Returns [`ServiceError`] if a request fails.
    pub async fn unpin_version(&self, entity: &EntityId, version: Version) -> Result<bool, ServiceError> {
        condition_holds(unpin_request(entity, version, self.history_table(), self.digits), self).await
    }
}

/// Sends the request, and returns `true` if its condition held.
async fn condition_holds(request: UpdateItemInputBuilder, store: &Store) -> Result<bool, ServiceError> {
    match request.send_with(&store.client).await {
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

/// Builds the request that marks a version.
pub fn mark_request(
    entity: &EntityId,
    version: Version,
    expires: Duration,
    table: &str,
    digits: VersionDigits,
) -> UpdateItemInputBuilder {
    of_version(entity, version, table, digits)
        .update_expression("SET #ttl = :expires")
        .condition_expression("attribute_exists(#pk) AND attribute_not_exists(#ttl) AND attribute_not_exists(#pinned)")
        .expression_attribute_names("#ttl", names::TTL)
        .expression_attribute_values(":expires", n(expires.as_secs()))
}

/// Builds the request that pins a version.
pub fn pin_request(
    entity: &EntityId,
    version: Version,
    now: Duration,
    table: &str,
    digits: VersionDigits,
) -> UpdateItemInputBuilder {
    of_version(entity, version, table, digits)
        .update_expression("SET #pinned = :true REMOVE #ttl")
        .condition_expression("attribute_exists(#pk) AND (attribute_not_exists(#ttl) OR #ttl > :now)")
        .expression_attribute_names("#ttl", names::TTL)
        .expression_attribute_values(":true", aws_sdk_dynamodb::types::AttributeValue::Bool(true))
        .expression_attribute_values(":now", n(now.as_secs()))
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
