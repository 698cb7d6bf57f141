//! Requests of pruning: raise the floor of a history, and mark a version below it with a `TTL`, or pin it.

use std::{iter, time::Duration};

use aws_sdk_dynamodb::types::AttributeValue;
use shared::{
    domain::{entity::EntityId, keys::FLOOR_KEY, layout, names, version::Version},
    dynamodb::{
        Store,
        client::error::ServiceError,
        expression::Expression,
        key, n,
        write::{Write, send_together},
    },
};

use crate::{
    error::OperationError,
    hold::{refusal, unless_held},
};

/// Raises the first version of an entity's history, unless it is higher already.
///
/// # Errors
///
/// Returns [`ServiceError`] if a request fails.
pub async fn raise_floor(store: &Store, entity: &EntityId, floor: Version) -> Result<(), ServiceError> {
    let raise = Write::update(store.history_table(), key(entity.as_str(), FLOOR_KEY), raised(floor));
    raise.send(store.client()).await.map(drop)
}

/// As [`raise_floor`], unless the entity is on hold.
///
/// # Errors
///
/// Returns [`OperationError::Held`] if it is, or the error of a request.
pub(crate) async fn raise_floor_unless_held(
    store: &Store,
    entity: &EntityId,
    floor: Version,
) -> Result<(), OperationError> {
    let mut raised = raised(floor);
    unless_held(&mut raised);
    let raise = Write::update(store.history_table(), key(entity.as_str(), FLOOR_KEY), raised);
    let outcome = raise.send(store.client()).await?;
    outcome.map_or_else(|failed| refusal(&failed), |_| Ok(()))
}

fn raised(floor: Version) -> Expression {
    let mut raised = Expression::default();
    raised
        .set("#floor = :floor")
        .condition("(attribute_not_exists(#floor) OR #floor < :floor)")
        .name("#floor", names::FLOOR)
        .value(":floor", n(floor));
    raised
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
    let version_key = store.digits().version_key(version);
    let update = |sort_key: &str, change| {
        let key = key(entity.as_str(), sort_key);
        Write::update(store.history_table(), key, change).without_result()
    };
    let mut marked = mark.of_version();
    if mark != Mark::Unpinned {
        // All parts must be marked too. If there are some, the response has the version item.
        marked
            .condition("attribute_not_exists(#parts)")
            .name("#parts", names::PARTS);
    }
    let stored = match update(&version_key, marked).send(store.client()).await? {
        Ok(_) => return Ok(true),
        Err(failed) => failed.stored.filter(|stored| stored.contains_key(names::PARTS)),
    };
    let Some(stored) = stored else { return Ok(false) };
    let parts = layout::part_keys(&stored);
    let parts = parts.iter().map(|key| update(key, mark.of_part()));
    let writes = iter::once(update(&version_key, mark.of_version())).chain(parts);
    send_together(store.client(), writes).await
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
