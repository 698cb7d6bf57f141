//! State that a deletion ends: the changes of the deletion, and the removal of attributes that it left on the tombstone.
//!
//! ```text
//! v0 before   Latest 6                State  Depth  …  999 more attributes
//! deletion    Latest 7  Deleted true                   400 of them, which did not fit the expression; they are not part of v7
//! removal     Latest 7  Deleted true                   the stream has the same v7 again
//! ```
//!
//! A restore of more attributes than one request can set uses the same rule: it puts them on the tombstone first, in several requests,
//! and the update that revives the entity keeps them.
//!
//! Whoever stops in between, the tombstone is the same version before and after the removal, and the next update does not take over
//! what is left. See [`attribution`].

use std::collections::BTreeMap;

use aws_sdk_dynamodb::types::AttributeValue;
use shared::{
    domain::{
        Item, attribution, change::Change, entity::EntityId, keys::LATEST_KEY, version::Version,
        version_item::latest_of,
    },
    dynamodb::{Store, client::error::ServiceError, expression::Expression, key, n, s, write::Write},
};

use crate::{
    counter::rules::{self, assign},
    update::{MAX_ATTRIBUTES, Update},
};

/// Removes the attributes that a tombstone still has although their state has ended, in as many requests as their names need.
/// Returns `false` if there are none. It stops if the latest item has another version meanwhile.
///
/// # Errors
///
/// Returns [`ServiceError`] if a request fails.
pub(crate) async fn remove_ended_state(store: &Store, entity: &EntityId, latest: &Item) -> Result<bool, ServiceError> {
    let Ok(version) = latest_of(latest) else {
        return Ok(false);
    };
    let mut ended = attribution::ended_names(latest, version);
    let is_left = !ended.is_empty();
    while !ended.is_empty() {
        match removal(entity, version, &ended, store.latest_table())
            .send(store.client())
            .await?
        {
            Ok(latest) => ended = attribution::ended_names(&latest.unwrap_or_default(), version),
            Err(_) => break,
        }
    }
    Ok(is_left)
}

/// Puts the state that an update sets on a tombstone of this project, for the update to keep it. It stops if the latest item changes
/// meanwhile; then the update is refused.
///
/// # Errors
///
/// Returns [`ServiceError`] if a request fails.
pub async fn stage_state(store: &Store, update: &Update, tombstone: Version) -> Result<(), ServiceError> {
    if let Some(latest) = store.get(&update.entity, LATEST_KEY, true).await? {
        remove_ended_state(store, &update.entity, &latest).await?;
    }
    let token = format!("{:016x}", fastrand::u64(..));
    let state: Vec<_> = update.new_state().collect();
    let mut before = None;
    for (index, part) in state.chunks(MAX_ATTRIBUTES).enumerate() {
        let token = format!("{token}-{index}");
        let part = part.iter();
        let part = part.map(|(name, value)| ((*name).clone(), Change::Set((*value).clone())));
        let tokens = (before.as_deref(), token.as_str());
        let write = staging(&update.entity, tombstone, &part.collect(), tokens, store.latest_table());
        if write.send(store.client()).await?.is_err() {
            return Ok(());
        }
        before = Some(token);
    }
    Ok(())
}

/// Returns the write that puts attributes on a tombstone, where they are no part of its version. All but the first of a restore have the
/// condition that no other restore or removal came between. Each changes the token, so that an update knows that there are more.
pub fn staging(
    entity: &EntityId,
    version: Version,
    state: &BTreeMap<String, Change>,
    (before, token): (Option<&str>, &str),
    table: &str,
) -> Write {
    let mut expression = of_tombstone(version);
    assign(&mut expression, "#staged = :staged", s(token));
    expression.changes(state);
    rules::STAGING.add_to(&mut expression);
    if let Some(before) = before {
        expression.value(":before", s(before));
        rules::NEXT_STAGING.add_to(&mut expression);
    }
    Write::update(table, key(entity.as_str(), LATEST_KEY), expression).without_result()
}

/// Returns the write that removes ended attributes of a tombstone, as many as fit.
pub fn removal(entity: &EntityId, version: Version, ended: &[String], table: &str) -> Write {
    let mut expression = of_tombstone(version);
    rules::remove(&mut expression, "#staged");
    expression.remove_fitting(ended);
    Write::update(table, key(entity.as_str(), LATEST_KEY), expression)
}

/// Begins an expression on the condition that the latest item is the tombstone of this version.
fn of_tombstone(version: Version) -> Expression {
    let mut expression = Expression::default();
    expression
        .value(":latest", n(version))
        .value(":deleted", AttributeValue::Bool(true));
    rules::REMOVAL.add_to(&mut expression);
    expression
}
