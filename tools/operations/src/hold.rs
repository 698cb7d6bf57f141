//! Hold: prune, purge and erase refuse an entity until its hold is released.
//!
//! ```text
//! PK Equipment#1   SK floor   Floor 7   Hold {HeldAt, Reason, Actor}
//! ```
//!
//! The hold is on the item with the floor, because the update that raises the floor can have it in its condition, a scan reads it with the
//! versions, and no version follows from it. Requests that mark or delete versions have no condition on another item: before each batch
//! of them, the hold is read again. A batch that is under way when the hold is set is carried out.

use std::fmt;

use serde::Serialize;
use shared::{
    domain::{
        AttributeValue, Item,
        attributes::{s, text},
        entity::EntityId,
        keys::FLOOR_KEY,
        names,
        recorded_at::RecordedAt,
    },
    dynamodb::{
        Store,
        client::error::ServiceError,
        expression::Expression,
        key,
        read::versions::ReadError,
        write::{Failed, Write},
    },
};

use crate::{error::OperationError, read::items::sort_keys};

const HOLD: &str = "Hold";
const HELD_AT: &str = "HeldAt";

/// Hold of an entity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct Hold {
    /// Time at which it was set.
    pub held_at: String,
    pub reason: String,
    /// Who set it.
    pub actor: Option<String>,
}

impl fmt::Display for Hold {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { held_at, reason, actor } = self;
        let by = actor.as_ref().map_or_else(String::new, |actor| format!(" by {actor}"));
        write!(formatter, "on hold since {held_at}{by}: {reason}")
    }
}

impl Hold {
    pub fn new(now: RecordedAt, reason: &str, actor: Option<&str>) -> Self {
        Self {
            held_at: now.to_string(),
            reason: reason.to_owned(),
            actor: actor.map(str::to_owned),
        }
    }

    /// Returns the hold in the item with the floor. One that another program wrote can lack members.
    pub fn of(floor: &Item) -> Option<Self> {
        let members = match floor.get(HOLD)? {
            AttributeValue::M(members) => members.clone().into(),
            _ => Item::default(),
        };
        let member = |name: &str| text(&members, name).map(str::to_owned);
        Some(Self {
            held_at: member(HELD_AT).unwrap_or_default(),
            reason: member(names::REASON).unwrap_or_default(),
            actor: member(names::ACTOR),
        })
    }

    fn value(&self) -> AttributeValue {
        let actor = self.actor.iter().map(|actor| (names::ACTOR, actor));
        let members = [(HELD_AT, &self.held_at), (names::REASON, &self.reason)].into_iter();
        let members = members.chain(actor).map(|(name, value)| (name.to_owned(), s(value)));
        AttributeValue::M(members.collect())
    }

    fn of_failed(failed: &Failed) -> Option<Self> {
        failed.stored.as_ref().and_then(Self::of)
    }
}

/// Adds the condition that an item with the floor has no hold.
pub(crate) fn unless_held(expression: &mut Expression) {
    expression.condition("attribute_not_exists(#hold)").name("#hold", HOLD);
}

/// Returns the error of a write with the condition [`unless_held`], if a hold made it fail.
pub(crate) fn refusal(failed: &Failed) -> Result<(), OperationError> {
    Hold::of_failed(failed).map_or(Ok(()), |hold| Err(OperationError::Held(hold)))
}

/// Reads the hold of an entity, consistently.
///
/// # Errors
///
/// Returns [`ServiceError`] if a request fails.
pub async fn hold_of(store: &Store, entity: &EntityId) -> Result<Option<Hold>, ServiceError> {
    Ok(store.get(entity, FLOOR_KEY, true).await?.as_ref().and_then(Hold::of))
}

/// Checks that an entity is not on hold.
///
/// # Errors
///
/// Returns [`OperationError::Held`] if it is, or the error of a request.
pub async fn check(store: &Store, entity: &EntityId) -> Result<(), OperationError> {
    let hold = hold_of(store, entity).await?;
    hold.map_or(Ok(()), |hold| Err(OperationError::Held(hold)))
}

/// Sets the hold of an entity.
///
/// # Errors
///
/// Returns [`OperationError::NoEntity`] if it has no items, [`OperationError::Held`] if it has another hold, or the error of a request.
pub async fn set(store: &Store, entity: &EntityId, hold: &Hold) -> Result<(), OperationError> {
    match store.newest(entity, true).await {
        Ok(None) if sort_keys(store, entity).await?.is_empty() => {
            return Err(OperationError::NoEntity(entity.as_str().to_owned()));
        }
        Err(ReadError::Service(error)) => return Err(error.into()),
        // The items of an entity without a valid latest item can be purged, too.
        _ => {}
    }
    let set = set_request(entity, hold, store.history_table());
    match set.send(store.client()).await? {
        // The response to an earlier attempt was lost.
        Err(failed) if Hold::of_failed(&failed).as_ref() != Some(hold) => refusal(&failed),
        _ => Ok(()),
    }
}

pub(crate) fn set_request(entity: &EntityId, hold: &Hold, table: &str) -> Write {
    let mut held = Expression::default();
    unless_held(&mut held);
    held.set("#hold = :hold").value(":hold", hold.value().into());
    Write::update(table, key(entity.as_str(), FLOOR_KEY), held)
}

/// Releases the hold of an entity. Returns `false` if it has none.
///
/// # Errors
///
/// Returns [`ServiceError`] if a request fails.
pub async fn release(store: &Store, entity: &EntityId) -> Result<bool, ServiceError> {
    let release = release_request(entity, store.history_table());
    let released = release.send(store.client()).await?;
    Ok(released.map_or_else(|failed| failed.was_unanswered, |_| true))
}

pub(crate) fn release_request(entity: &EntityId, table: &str) -> Write {
    let mut released = Expression::default();
    released
        .condition("attribute_exists(#hold)")
        .remove("#hold")
        .name("#hold", HOLD);
    Write::update(table, key(entity.as_str(), FLOOR_KEY), released)
}
