//! Time-based versioning: each state of an entity is an item whose sort key is its time.
//!
//! ```text
//! PK           SK                   State     Name           FactoryID
//! Equipment#1  2020-11-12T20:02:00  OK
//! Equipment#1  2020-11-12T20:04:00  WARNING1
//! Equipment#1  Metadata                       Equipment-001  F#88546
//! ```
//!
//! ```no_run
//! # async fn example(client: aws_sdk_dynamodb::Client) -> Result<(), Box<dyn std::error::Error>> {
//! use patterns::time_series::{StateTime, TimeSeries};
//! use shared::domain::{AttributeValue, Item, entity::EntityId};
//!
//! let series = TimeSeries::new(client, "VersionControl");
//! let equipment = EntityId::new("Equipment#1")?;
//! let state = Item::from(std::collections::HashMap::from([("State".to_owned(), AttributeValue::S("WARNING1".into()))]));
//! series.put(&equipment, &StateTime::parse("2020-11-12T20:04:00")?, state, false).await?;
//! let newest = series.latest(&equipment, true).await?;
//! assert!(newest.is_some_and(|state| state.time.as_str() == "2020-11-12T20:04:00"));
//! # Ok(())
//! # }
//! ```

mod load;
mod query;

use std::fmt;

use aws_sdk_dynamodb::Client;
use jiff::tz::TimeZone;

use shared::{
    domain::{
        AttributeValue, Item,
        entity::EntityId,
        keys::VersionDigits,
        names,
        time::{InvalidTime, timestamp},
    },
    dynamodb::{Store, client::error::ServiceError, expression::Expression, write::Write},
};

pub use self::{
    load::{InvalidState, LoadError, check_states},
    query::{InvalidPrefix, StateQuery, TimePrefix},
};

/// Table of states by time.
#[derive(Debug, Clone)]
pub struct TimeSeries {
    store: Store,
}

/// Time of a state, its sort key: `2020-11-12T20:04:00` in UTC, with a fraction if it has one. Equal times have equal keys,
/// and keys sort as times.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StateTime(String);

impl StateTime {
    /// Parses an ISO 8601 date and time. A time without an offset is UTC.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidTime`] if the text is not a date and time, or the year is not from 0 to 9999.
    ///
    /// ```
    /// use patterns::time_series::StateTime;
    ///
    /// let key = |text| StateTime::parse(text).unwrap().to_string();
    /// assert_eq!(key("2020-11-12T20:04:00"), "2020-11-12T20:04:00");
    /// assert_eq!(key("2020-11-12T21:04:00.50+01:00"), "2020-11-12T20:04:00.5");
    /// ```
    pub fn parse(text: &str) -> Result<Self, InvalidTime> {
        let civil = TimeZone::UTC.to_datetime(timestamp(text)?);
        // Years before 0 and after 9999 do not sort as text.
        if !(0..=9999).contains(&civil.year()) {
            return Err(InvalidTime);
        }
        Ok(Self(civil.strftime("%Y-%m-%dT%H:%M:%S%.f").to_string()))
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for StateTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// State of an entity at a time.
#[derive(Clone, PartialEq)]
pub struct State {
    /// Time of the state.
    pub time: StateTime,
    /// Attributes without the keys.
    pub attributes: Item,
}

/// Outcome of a put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PutOutcome {
    /// The state was stored.
    Put,
    /// Another state has this time, and was not changed.
    Taken,
}

impl TimeSeries {
    /// Creates the time series of this table.
    pub fn new(client: Client, table: impl Into<String>) -> Self {
        Self {
            store: Store::new(client, table, VersionDigits::default()),
        }
    }

    /// Stores a state. If a state of the same time exists, it is replaced only with `replace`.
    ///
    /// # Errors
    ///
    /// Returns [`ServiceError`] if a request fails.
    pub async fn put(
        &self,
        entity: &EntityId,
        time: &StateTime,
        state: Item,
        replace: bool,
    ) -> Result<PutOutcome, ServiceError> {
        let condition = match replace {
            true => Expression::default(),
            false => Expression::absent(),
        };
        let put = Write::put(self.store.latest_table(), item(entity, time, state), condition);
        Ok(match put.send(self.store.client()).await? {
            Ok(_) => PutOutcome::Put,
            Err(_) => PutOutcome::Taken,
        })
    }
}

/// Returns the item of a state.
fn item(entity: &EntityId, time: &StateTime, mut attributes: Item) -> Item {
    attributes.insert(names::PK.to_owned(), AttributeValue::S(entity.as_str().to_owned()));
    attributes.insert(names::SK.to_owned(), AttributeValue::S(time.0.clone()));
    attributes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_time_has_one_key() {
        for text in [
            "2020-11-12T20:04:00",
            "2020-11-12T20:04:00Z",
            "2020-11-12T20:04:00.000Z",
            "2020-11-12 20:04:00",
            "2020-11-12t20:04:00z",
            "2020-11-12T21:04:00+01:00",
        ] {
            assert_eq!(
                StateTime::parse(text).unwrap().as_str(),
                "2020-11-12T20:04:00",
                "{text}"
            );
        }
        for text in ["", "Metadata", "v1", "-000001-01-01T00:00:00"] {
            assert_eq!(StateTime::parse(text), Err(InvalidTime), "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn keys_sort_as_their_times(a in 0..4_000_000_000_000i64, b in 0..4_000_000_000_000i64) {
            let key = |millis| {
                let text = jiff::Timestamp::from_millisecond(millis).unwrap().to_string();
                StateTime::parse(&text).unwrap()
            };
            proptest::prop_assert_eq!(key(a).cmp(&key(b)), a.cmp(&b));
        }
    }
}
