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
//! use shared::{domain::{AttributeValue, Item, entity::EntityId}, time_series::{StateTime, TimeSeries}};
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

use std::fmt;

use aws_sdk_dynamodb::{
    Client,
    operation::put_item::{PutItemError, builders::PutItemInputBuilder},
};
use jiff::tz::TimeZone;

use crate::{
    clock,
    domain::{
        AttributeValue, Item,
        entity::EntityId,
        keys::VersionDigits,
        marks::is_expired,
        names,
        time::{InvalidTime, timestamp},
    },
    dynamodb::{Store, client::error::ServiceError, read::query_items::Range},
};

/// Table of states by time.
#[derive(Debug, Clone)]
pub struct TimeSeries {
    store: Store,
}

/// Time of a state, its sort key: `2020-11-12T20:04:00` in UTC, with a fraction if it has one. Equal times have equal keys,
/// and keys sort as times.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct StateTime(String);

impl StateTime {
    /// Parses an ISO 8601 date and time. A time without an offset is UTC.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidTime`] if the text is not a date and time, or the year is not from 0 to 9999.
    ///
    /// ```
    /// use shared::time_series::StateTime;
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
        let request = request(entity, time, state, replace, &self.store.table);
        match request.send_with(&self.store.client).await {
            Ok(_) => Ok(PutOutcome::Put),
            Err(error) => match error.as_service_error() {
                Some(PutItemError::ConditionalCheckFailedException(_)) => Ok(PutOutcome::Taken),
                _ => Err(ServiceError::new("PutItem", &error)),
            },
        }
    }

    /// Reads the newest state: one descending `Query` of one item, and more requests if states have expired.
    ///
    /// # Errors
    ///
    /// Returns [`ServiceError`] if a request fails.
    pub async fn latest(&self, entity: &EntityId, consistent: bool) -> Result<Option<State>, ServiceError> {
        let mut range = Range {
            reversed: true,
            limit: Some(1),
            ..all_times(consistent)
        };
        let mut cursor = None;
        loop {
            let (items, next) = self.store.query_page(entity, &range, cursor).await?;
            let found = items.into_iter().find_map(state);
            if found.is_some() || next.is_none() {
                return Ok(found);
            }
            (range.limit, cursor) = (None, next);
        }
    }

    /// Reads the states of a range of times, both ends included, in ascending order.
    ///
    /// # Errors
    ///
    /// Returns [`ServiceError`] if a request fails.
    pub async fn between(
        &self,
        entity: &EntityId,
        from: Option<&StateTime>,
        to: Option<&StateTime>,
        consistent: bool,
    ) -> Result<Vec<State>, ServiceError> {
        let mut range = all_times(consistent);
        range.from = from.map_or(range.from, |time| time.0.clone());
        range.to = to.map_or(range.to, |time| time.0.clone());
        if range.from > range.to {
            return Ok(Vec::new());
        }
        let (mut states, mut cursor) = (Vec::new(), None);
        loop {
            let (items, next) = self.store.query_page(entity, &range, cursor).await?;
            states.extend(items.into_iter().filter_map(state));
            cursor = next;
            if cursor.is_none() {
                return Ok(states);
            }
        }
    }
}

/// Builds the request.
pub fn request(
    entity: &EntityId,
    time: &StateTime,
    mut state: Item,
    replace: bool,
    table: &str,
) -> PutItemInputBuilder {
    state.insert(names::PK.to_owned(), AttributeValue::S(entity.as_str().to_owned()));
    state.insert(names::SK.to_owned(), AttributeValue::S(time.0.clone()));
    let request = PutItemInputBuilder::default()
        .table_name(table)
        .set_item(Some(state.into()));
    if replace {
        return request;
    }
    request
        .condition_expression("attribute_not_exists(#pk)")
        .expression_attribute_names("#pk", names::PK)
}

/// Returns the range of all keys that begin with a digit, which excludes versions and metadata.
fn all_times(consistent: bool) -> Range {
    Range {
        from: "0".to_owned(),
        to: ":".to_owned(),
        reversed: false,
        limit: None,
        consistent,
    }
}

/// Returns `None` for an expired item.
fn state(mut item: Item) -> Option<State> {
    if is_expired(&item, clock::since_epoch()) {
        return None;
    }
    item.remove(names::PK);
    match item.remove(names::SK) {
        Some(AttributeValue::S(time)) => Some(State {
            time: StateTime(time),
            attributes: item,
        }),
        _ => None,
    }
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
