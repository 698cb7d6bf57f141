//! States of a range of times: `Query`, page by page.
//!
//! A range has bounds, a prefix of the stored time, or both; its keys are the intersection. Items of the range that are no
//! states are left out: expired items, and items of other programs whose key begins with a digit but is no time.

use std::time::Duration;

use shared::{
    domain::{Item, entity::EntityId, keys::sort_key_of, marks::is_expired, names, time::timestamp},
    dynamodb::{client::error::ServiceError, read::query_items::Range},
};
use thiserror::Error;

use super::{State, StateTime, TimeSeries};

/// Range and order of states.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StateQuery {
    /// Earliest time; it belongs to the range.
    pub from: Option<StateTime>,
    /// Latest time; it belongs to the range.
    pub to: Option<StateTime>,
    /// Beginning of the times.
    pub prefix: Option<TimePrefix>,
    /// `true` for descending order.
    pub newest_first: bool,
    /// Maximum number of states.
    pub limit: Option<usize>,
    /// `true` for strongly consistent reads.
    pub consistent: bool,
}

/// Beginning of a time as it is stored, see [`StateTime`]: `2023-12` is a month, `2023-12-15T08` an hour.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimePrefix(String);

impl TimePrefix {
    /// Checks that a time can begin with this text.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidPrefix`] if no stored time begins with the text.
    ///
    /// ```
    /// use patterns::time_series::TimePrefix;
    ///
    /// assert!(TimePrefix::parse("2023-12").is_ok());
    /// assert!(TimePrefix::parse("2023-13").is_err());
    /// assert!(TimePrefix::parse("v1").is_err());
    /// ```
    pub fn parse(text: &str) -> Result<Self, InvalidPrefix> {
        // The rest of a time, by the length of what precedes it. No day begins with 3 in a month of 28 or 29 days.
        const TIMES: [&str; 2] = ["0000-01-01T00:00:00", "0000-01-00T00:00:00"];
        let is_time = |text: String| StateTime::parse(&text).is_ok_and(|time| time.as_str() == text);
        let seconds = TIMES[0].len();
        let matches = match text.len() {
            0 => false,
            // A fraction has up to nine digits, and the last one is not 0.
            length if length > seconds => is_time(text.to_owned()) || is_time(format!("{text}1")),
            length => TIMES.iter().any(|time| is_time(format!("{text}{}", &time[length..]))),
        };
        matches.then(|| Self(text.to_owned())).ok_or(InvalidPrefix)
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// No stored time begins with the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("it is not the beginning of a stored time, such as 2023-12 or 2023-12-15T08")]
pub struct InvalidPrefix;

impl StateQuery {
    /// Returns the range of keys. It is empty if `from` is greater than `to`.
    fn range(&self) -> Range {
        // All keys that begin with a digit, which excludes versions and metadata. `~` sorts after each character of a time.
        let (mut from, mut to) = match &self.prefix {
            Some(prefix) => (prefix.0.clone(), format!("{}~", prefix.0)),
            None => ("0".to_owned(), ":".to_owned()),
        };
        if let Some(time) = &self.from {
            from = from.max(time.0.clone());
        }
        if let Some(time) = &self.to {
            to = to.min(time.0.clone());
        }
        Range {
            from,
            to,
            reversed: self.newest_first,
            limit: self.limit.map(page_limit),
            consistent: self.consistent,
        }
    }
}

impl TimeSeries {
    /// Reads the newest state: one descending `Query` of one item, and more requests if states have expired.
    ///
    /// # Errors
    ///
    /// Returns [`ServiceError`] if a request fails.
    pub async fn latest(&self, entity: &EntityId, consistent: bool) -> Result<Option<State>, ServiceError> {
        let query = StateQuery {
            newest_first: true,
            limit: Some(1),
            consistent,
            ..StateQuery::default()
        };
        Ok(self.between(entity, &query).await?.pop())
    }

    /// Reads the states of a range of times, by default all of them in ascending order. A limit is also the limit of the
    /// pages, so that no more items are read than needed.
    ///
    /// # Errors
    ///
    /// Returns [`ServiceError`] if a request fails.
    pub async fn between(&self, entity: &EntityId, query: &StateQuery) -> Result<Vec<State>, ServiceError> {
        let mut range = query.range();
        let limit = query.limit.unwrap_or(usize::MAX);
        if range.from > range.to || limit == 0 {
            return Ok(Vec::new());
        }
        let now = self.store.clock().now();
        let (mut states, mut cursor) = (Vec::new(), None);
        loop {
            let (items, next) = self.store.query_page(entity, &range, cursor).await?;
            let (before, read) = (states.len(), items.len());
            let found = items.into_iter().filter_map(|item| state(item, now));
            states.extend(found.take(limit - before));
            if states.len() == limit || next.is_none() {
                return Ok(states);
            }
            // After items that were left out, the next page has no limit: many small pages can be expired completely.
            let all_shown = states.len() - before == read;
            let rest = query.limit.filter(|_| all_shown);
            range.limit = rest.map(|limit| page_limit(limit - states.len()));
            cursor = next;
        }
    }
}

fn page_limit(states: usize) -> i32 {
    i32::try_from(states).unwrap_or(i32::MAX)
}

/// Returns `None` for an expired item, and for one whose key is no time.
fn state(mut item: Item, now: Duration) -> Option<State> {
    if is_expired(&item, now) {
        return None;
    }
    let time = sort_key_of(&item).filter(|key| timestamp(key).is_ok())?;
    let time = StateTime(time.to_owned());
    for name in [names::PK, names::SK] {
        item.remove(name);
    }
    Some(State { time, attributes: item })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn time(text: &str) -> StateTime {
        StateTime::parse(text).unwrap()
    }

    #[test]
    fn a_prefix_is_the_beginning_of_a_time() {
        let valid =
            "0 9 2023 2023- 2023-0 2023-1 2023-12 2023-12-3 2023-12-31T 2024-02-29 2023-12-15T2 2023-12-15T08:3";
        let seconds = ["", ".", ".50", ".123456789"].map(|fraction| format!("2023-12-15T08:30:00{fraction}"));
        for valid in valid.split(' ').chain(seconds.iter().map(String::as_str)) {
            assert_eq!(TimePrefix::parse(valid).unwrap().as_str(), valid);
        }
        let invalid = "v v0 v1 Meta 2023-12* 2023-2 2023-13 2023-02-3 2023-02-29 2023-12-15T24 -2023 20é3 \u{0661}";
        let seconds = ["Z", ".0000000000", ".000000000", ".1234567890"].map(|end| format!("2023-12-15T08:30:00{end}"));
        let others = ["", "2023-12-15 08"]
            .into_iter()
            .chain(seconds.iter().map(String::as_str));
        for invalid in invalid.split(' ').chain(others) {
            assert_eq!(TimePrefix::parse(invalid), Err(InvalidPrefix), "{invalid}");
        }
    }

    proptest! {
        #[test]
        fn each_beginning_of_a_time_is_a_prefix(nanos in 0..4_000_000_000_000_000_000i128, length in 1usize..30) {
            let text = jiff::Timestamp::from_nanosecond(nanos).unwrap().to_string();
            let time = StateTime::parse(&text).unwrap();
            let beginning = &time.as_str()[..length.min(time.as_str().len())];
            prop_assert!(TimePrefix::parse(beginning).is_ok(), "{}", beginning);
        }

        /// The range contains a time exactly if each bound and the prefix do.
        #[test]
        fn a_range_is_the_intersection_of_its_bounds_and_prefix(
            [at, from, to] in [0..2000i64, 0..2000i64, 0..2000i64],
            has_from: bool, has_to: bool,
            length in 0usize..20,
        ) {
            // Every 10 hours, and every second one with a fraction.
            let time = |step: i64| {
                let fraction = if step % 2 == 0 { "" } else { ".5" };
                let at = jiff::Timestamp::from_second(step * 36_000).unwrap();
                time(&format!("{}{fraction}Z", at.strftime("%Y-%m-%dT%H:%M:%S")))
            };
            let prefix = time(from).as_str()[..length.min(time(from).as_str().len())].to_owned();
            let query = StateQuery {
                from: has_from.then(|| time(from)),
                to: has_to.then(|| time(to)),
                prefix: TimePrefix::parse(&prefix).ok(),
                ..StateQuery::default()
            };
            let (key, range) = (time(at), query.range());
            let in_range = range.from.as_str() <= key.as_str() && key.as_str() <= range.to.as_str();
            let expected = (!has_from || time(from) <= key)
                && (!has_to || key <= time(to))
                && key.as_str().starts_with(&prefix);
            prop_assert_eq!(in_range, expected);
        }
    }
}
