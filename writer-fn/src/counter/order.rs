//! Order of updates by time, as a part of an update's [`Expression`]: an update that is older than the latest item fails.
//!
//! The condition compares `Timestamp`. A latest item that was written when updates were not ordered by time has only `Time`,
//! a text; then the writer compares, and the condition requires that the latest item still has this `Time`.

use shared::{
    domain::{AttributeValue, Item, names},
    dynamodb::expression::Expression,
};

use crate::update::Update;

/// Time of the latest item that an update must not be older than.
#[derive(Debug, Clone, PartialEq)]
pub enum Order {
    /// `Timestamp`, if the item has a time.
    ByTimestamp,
    /// This `Time`, which is not later than the update. The item has no `Timestamp`.
    After {
        /// Value of `Time`.
        time: AttributeValue,
    },
}

impl Order {
    /// Returns the form that a stored latest item needs.
    pub fn fitting(stored: Option<&Item>) -> Self {
        let stored = stored.filter(|stored| !stored.contains_key(names::TIMESTAMP));
        match stored.and_then(|stored| stored.get(names::TIME)) {
            Some(time) => Self::After { time: time.clone() },
            None => Self::ByTimestamp,
        }
    }

    /// Returns `true` if the condition holds for the stored latest item, provided that the update is not older.
    pub(crate) fn holds_for(&self, update: &Update, stored: Option<&Item>) -> bool {
        update.timestamp.is_none() || *self == Self::fitting(stored)
    }

    /// Adds this part to the expression of an update that sets `#timestamp` to `:timestamp`.
    pub(crate) fn add_to(&self, expression: &mut Expression) {
        // Equal times are accepted.
        match self {
            Self::ByTimestamp => expression.condition(
                "(#timestamp <= :timestamp OR (attribute_not_exists(#timestamp) AND attribute_not_exists(#time)))",
            ),
            Self::After { time } => expression
                .condition("attribute_not_exists(#timestamp) AND #time = :before")
                .value(":before", time.clone().into()),
        };
        expression.name("#time", names::TIME);
    }
}
