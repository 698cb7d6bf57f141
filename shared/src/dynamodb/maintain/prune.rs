//! Versions taken out of a history: the floor is raised first, then what is below it is marked with a `TTL`, by `UpdateItem`s.
//!
//! Whoever is killed in between can begin again: the floor says that history begins there, and what is below and not yet marked
//! is marked by the next run.

use std::time::Duration;

use aws_sdk_dynamodb::operation::update_item::{UpdateItemError, builders::UpdateItemInputBuilder};

use crate::{
    domain::{
        Item,
        audit::Collection,
        entity::EntityId,
        keys::{FLOOR_KEY, VersionDigits, sort_key_of},
        names,
        prune::{Keep, Plan, Times, plan},
        version::Version,
        version_item::latest_of,
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
    /// Reads an entity, and says what pruning would do to it. `None` where there is no such entity.
    pub async fn plan_prune(
        &self,
        entity: &EntityId,
        keep: Keep,
        over_gaps: bool,
        limiter: &RateLimiter,
    ) -> Result<Option<Plan>, ReadError> {
        let (mut seen, mut times) = (Collection::default(), Times::default());
        let floor = limiter.run(async || self.get(entity, FLOOR_KEY, true).await).await?;
        if let Some(floor) = floor {
            seen.add(floor, self.digits);
        }
        let range = Range::all_versions(limiter.page_limit());
        let mut cursor = None;
        loop {
            let page = limiter.run(async || self.query_page(entity, &range, cursor.clone()).await);
            let (items, next) = page.await?;
            for item in items {
                if let Some(version) = self.version_by_key(&item) {
                    times.add(version, &item);
                }
                seen.add(item, self.digits);
            }
            cursor = next;
            if cursor.is_none() {
                break;
            }
        }
        let Some(head) = seen.latest_version() else {
            return Ok(None);
        };
        Ok(Some(plan(&seen, &times, head?, keep, over_gaps)))
    }

    fn version_by_key(&self, item: &Item) -> Option<Version> {
        match sort_key_of(item)? {
            key if key == self.digits.latest_key() => latest_of(item).ok(),
            key => self.digits.version_of(key),
        }
    }

    /// Says that the history of an entity begins at this version, unless it begins later already.
    pub async fn raise_floor(&self, entity: &EntityId, floor: Version) -> Result<(), ServiceError> {
        let request = floor_request(entity, floor, &self.table);
        met(request, self).await.map(drop)
    }

    /// Marks a version to be deleted at this time, unless it is gone, pinned or marked. Tells whether it did.
    pub async fn mark_version(
        &self,
        entity: &EntityId,
        version: Version,
        expires: Duration,
    ) -> Result<bool, ServiceError> {
        met(mark_request(entity, version, expires, &self.table, self.digits), self).await
    }

    /// Pins a version, so that pruning leaves it alone, and takes its mark away. False where it is not there, or expired before
    /// this time.
    pub async fn pin_version(&self, entity: &EntityId, version: Version, now: Duration) -> Result<bool, ServiceError> {
        met(pin_request(entity, version, now, &self.table, self.digits), self).await
    }

    /// Takes a pin away. False where there is no such version.
    pub async fn unpin_version(&self, entity: &EntityId, version: Version) -> Result<bool, ServiceError> {
        met(unpin_request(entity, version, &self.table, self.digits), self).await
    }
}

/// Sends the request, and tells whether its condition was met.
async fn met(request: UpdateItemInputBuilder, store: &Store) -> Result<bool, ServiceError> {
    match request.send_with(&store.client).await {
        Ok(_) => Ok(true),
        Err(error) => match error.as_service_error() {
            Some(UpdateItemError::ConditionalCheckFailedException(_)) => Ok(false),
            _ => Err(ServiceError::new(OPERATION, &error)),
        },
    }
}

/// The request that raises the floor.
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

/// The request that marks a version.
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

/// The request that pins a version.
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

/// The request that takes a pin away.
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
