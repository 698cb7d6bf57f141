//! Times of updates.

use jiff::{Timestamp, civil::DateTime, tz::TimeZone};
use thiserror::Error;

/// Time in milliseconds since 1970-01-01T00:00:00Z, the unit of the attribute [`Timestamp`](crate::domain::names::TIMESTAMP).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct EpochMillis(i64);

impl EpochMillis {
    /// Creates a time from a number of milliseconds.
    pub fn new(millis: i64) -> Self {
        Self(millis)
    }

    /// Creates a time from a number of microseconds, rounded down.
    pub fn from_micros(micros: i64) -> Self {
        Self(micros.div_euclid(1000))
    }

    /// Parses an ISO 8601 date and time, rounded down to milliseconds. A time without an offset is UTC.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidTime`] if the text is not an ISO 8601 date and time.
    ///
    /// ```
    /// use shared::domain::time::EpochMillis;
    ///
    /// let millis = |text| EpochMillis::parse_iso(text).unwrap().get();
    /// assert_eq!(millis("2020-11-01T20:04:00"), 1_604_261_040_000);
    /// assert_eq!(millis("2020-11-01T20:04:00Z"), 1_604_261_040_000);
    /// assert_eq!(millis("2020-11-01T21:04:00.5+01:00"), 1_604_261_040_500);
    /// ```
    pub fn parse_iso(text: &str) -> Result<Self, InvalidTime> {
        let millis = timestamp(text)?.as_nanosecond().div_euclid(1_000_000);
        i64::try_from(millis).map(Self).map_err(|_| InvalidTime)
    }

    /// Returns the number of milliseconds.
    pub fn get(self) -> i64 {
        self.0
    }
}

/// Parses an ISO 8601 date and time. A time without an offset is UTC.
///
/// # Errors
///
/// Returns [`InvalidTime`] if the text is not a date and time.
pub fn timestamp(text: &str) -> Result<Timestamp, InvalidTime> {
    // A time zone in brackets would be ignored if the text has no offset.
    if text.contains('[') {
        return Err(InvalidTime);
    }
    let instant: Result<Timestamp, _> = text.parse();
    instant.or_else(|_| {
        let civil = text.parse::<DateTime>().and_then(|civil| civil.to_zoned(TimeZone::UTC));
        civil.map(|zoned| zoned.timestamp()).map_err(|_| InvalidTime)
    })
}

/// The text is not an ISO 8601 date and time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("it is not an ISO 8601 date and time")]
pub struct InvalidTime;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_times() {
        let zoned = "2020-11-01T20:04:00[Europe/Paris]";
        for text in ["", "yesterday", "20:04:00", "2020-13-01T00:00:00", "1604261040", zoned] {
            assert_eq!(EpochMillis::parse_iso(text), Err(InvalidTime), "{text}");
        }
    }
}
