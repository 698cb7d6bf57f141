//! Expiry of the latest item, as a part of an update's [`Expression`]: a tombstone sets `TTL`, every other update removes it.
//!
//! A latest item that has expired is treated as absent. The update that revives the entity keeps its counter and its recent
//! requests, and removes all other attributes. DynamoDB can delete the item at any time; then the condition fails.

use std::time::Duration;

use crate::{
    domain::{AttributeValue, Item, attribution, marks::is_expired, names, recorded_at::RecordedAt, update::Update},
    dynamodb::{n, write::expression::Expression},
};

/// Attributes that stay on an expired latest item, or that every update sets or removes.
const KEPT: [&str; 4] = [names::PK, names::SK, names::RECORDED_AT, names::DELETED];

/// Lifetime of the stored latest item.
#[derive(Debug, Clone, PartialEq)]
pub enum Lifetime {
    /// It does not expire, or not before this time.
    Unexpired {
        /// Time since 1970-01-01T00:00:00Z.
        now: Duration,
    },
    /// It has expired.
    Expired {
        /// Its `TTL`.
        ttl: AttributeValue,
        /// Attributes to remove.
        attributes: Vec<String>,
    },
}

impl Lifetime {
    /// Returns the lifetime that most latest items have.
    pub fn assumed(now: RecordedAt) -> Self {
        Self::Unexpired { now: now.to_duration() }
    }

    /// Returns the lifetime of a stored latest item, for an update at a time.
    pub fn fitting(update: &Update, now: RecordedAt, stored: Option<&Item>) -> Self {
        let expired = stored.filter(|stored| is_expired(stored, now.to_duration()));
        let Some((stored, ttl)) = expired.and_then(|stored| Some((stored, stored.get(names::TTL)?))) else {
            return Self::assumed(now);
        };
        let is_kept = |name: &str| {
            let bookkeeping = attribution::OF_LATEST.into_iter().chain(attribution::OF_CLIENT);
            let bookkeeping = bookkeeping.chain(attribution::OF_WRITER).chain(attribution::OF_REQUEST);
            bookkeeping.chain(KEPT).any(|kept| kept == name) || update.changes.contains_key(name)
        };
        let mut attributes: Vec<_> = stored.keys().filter(|name| !is_kept(name)).cloned().collect();
        attributes.sort_unstable();
        Self::Expired {
            ttl: ttl.clone(),
            attributes,
        }
    }

    /// Returns `true` if the latest item has expired.
    pub fn is_expired(&self) -> bool {
        matches!(self, Self::Expired { .. })
    }

    /// Returns `true` if the condition holds for the stored latest item.
    pub(crate) fn holds_for(&self, stored: Option<&Item>) -> bool {
        match self {
            Self::Unexpired { now } => !stored.is_some_and(|stored| is_expired(stored, *now)),
            Self::Expired { ttl, .. } => stored.and_then(|stored| stored.get(names::TTL)) == Some(ttl),
        }
    }

    /// Adds this part to an update's expression.
    pub(crate) fn add_to(&self, expression: &mut Expression, update: &Update) {
        expression.name("#ttl", names::TTL);
        match update.expires {
            Some(expires) => expression.set("#ttl = :ttl").value(":ttl", n(expires)),
            None => expression.remove("#ttl"),
        };
        match self {
            // An attribute of another type does not expire.
            Self::Unexpired { now } => expression
                .condition("(attribute_not_exists(#ttl) OR NOT #ttl <= :now)")
                .value(":now", n(now.as_secs())),
            Self::Expired { ttl, attributes } => {
                for (index, name) in attributes.iter().enumerate() {
                    expression.remove(format!("#e{index}")).name(format!("#e{index}"), name);
                }
                expression.condition("#ttl = :now").value(":now", ttl.clone().into())
            }
        };
    }
}
