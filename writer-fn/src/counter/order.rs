//! Order of updates by time, as a part of an update's [`Expression`]: an update that is older than the latest item fails.
//!
//! The condition compares `Timestamp`. A latest item that was written when updates were not ordered by time has only `Time`,
//! a text; then the writer compares, and the condition requires that the latest item still has this `Time`.

use shared::{
    domain::{AttributeValue, Item, names, time::EpochMillis},
    dynamodb::{expression::Expression, n},
};

use crate::counter::rules::{self, assign};

/// `Time` of a latest item without `Timestamp`, which is not later than the update. `None` if `Timestamp` is compared.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Order(pub(crate) Option<AttributeValue>);

impl Order {
    /// Returns the form that a stored latest item needs.
    pub fn fitting(stored: Option<&Item>) -> Self {
        let stored = stored.filter(|stored| !stored.contains_key(names::TIMESTAMP));
        Self(stored.and_then(|stored| stored.get(names::TIME)).cloned())
    }

    /// Adds this part to the expression of an update at this time.
    pub(crate) fn add_to(&self, expression: &mut Expression, timestamp: EpochMillis) {
        assign(expression, "#timestamp = :timestamp", n(timestamp.get()));
        if let Some(time) = &self.0 {
            expression.value(":before_time", time.clone().into());
            rules::AFTER_TIME.add_to(expression);
        }
    }
}
