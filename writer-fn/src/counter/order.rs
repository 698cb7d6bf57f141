//! Order of updates by time, as a part of an update's [`Expression`]: an update that is older than the latest item fails.
//!
//! The condition compares `Timestamp`. A latest item that was written when updates were not ordered by time has only `Time`,
//! a text; then the writer compares, and the condition requires that the latest item still has this `Time`.

use crate::counter::rules;
use shared::{
    domain::{AttributeValue, Item, names, time::EpochMillis},
    dynamodb::{expression::Expression, n},
};

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

    /// Adds this part to the expression of an update at this time.
    pub(crate) fn add_to(&self, expression: &mut Expression, timestamp: EpochMillis) {
        expression
            .set("#timestamp = :timestamp")
            .value(":timestamp", n(timestamp.get()));
        match self {
            Self::ByTimestamp => rules::RATCHET.add_to(expression),
            Self::After { time } => {
                expression.value(":before", time.clone().into());
                rules::AFTER_TIME.add_to(expression);
            }
        }
    }
}
