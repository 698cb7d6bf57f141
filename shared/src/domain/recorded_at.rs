//! Time at which a version was recorded: a hybrid logical clock, as text.
//!
//! ```text
//! 2026-11-22T06:24:48.123456003Z
//!                     ^^^^^^     microseconds of the writer's clock
//!                           ^^^  tick: orders versions when the writer's clock is behind that of the previous version
//! ```
//!
//! All texts have the same length and are in UTC, so their order is the order of the times. Within an entity, the times
//! strictly increase with the versions, although the clocks of writers differ: a version is at least one tick later than
//! the one before.

use std::{fmt, time::Duration};

use jiff::Timestamp;

use super::{
    AttributeValue, Item,
    attributes::{text, whole},
    names,
    time::{EpochMillis, InvalidTime, timestamp},
    version::Version,
};

/// Number of nanoseconds of a tick's range: a time of the clock is a multiple of it.
const NANOS_PER_MICRO: i128 = 1_000;

/// Bound of the difference between the clock of a purge or an erasure, those of writers, and the stream's times in whole seconds.
pub const CLOCK_TOLERANCE: Duration = Duration::from_secs(10);

/// Maximum time by which a version's time is ahead of the clock. A later one is wrong: another program wrote it, or a writer's
/// clock was wrong.
pub const MAX_AHEAD: Duration = Duration::from_secs(15 * 60);

/// Time at which a version was recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct RecordedAt(Timestamp);

impl RecordedAt {
    /// Maximum number of ticks after a time of the clock.
    pub const MAX_TICKS: u16 = 999;

    /// Returns a time since 1970-01-01T00:00:00Z, truncated to microseconds.
    pub fn since_epoch(time: Duration) -> Self {
        Self::from_micros(i64::try_from(time.as_micros()).unwrap_or(i64::MAX))
    }

    /// Returns the time of a version that another program wrote, from the creation time of its stream record.
    ///
    /// A stream gives whole seconds, and Kinesis microseconds. The version separates versions of the same second.
    pub fn of_stream_record(created_micros: i64, version: Version) -> Self {
        const SECOND: i64 = 1_000_000;
        let number = i64::try_from(version.get() % 1_000_000).unwrap_or_default();
        if created_micros % SECOND == 0 {
            return Self::from_micros(created_micros.saturating_add(number));
        }
        Self::from_micros(created_micros).after_ticks(u16::try_from(number % 1_000).unwrap_or_default())
    }

    /// Returns a time in milliseconds.
    pub fn from_millis(time: EpochMillis) -> Self {
        Self::from_nanos(i128::from(time.get()) * 1_000_000)
    }

    fn from_micros(micros: i64) -> Self {
        Self::from_nanos(i128::from(micros) * NANOS_PER_MICRO)
    }

    /// Times outside the years that four digits can represent are moved to the nearest one inside.
    fn from_nanos(nanos: i128) -> Self {
        const YEAR_0: i128 = -62_167_219_200_000_000_000;
        let nanos = nanos.clamp(YEAR_0, Timestamp::MAX.as_nanosecond());
        Self(Timestamp::from_nanosecond(nanos).unwrap_or(Timestamp::MAX))
    }

    /// Parses an ISO 8601 date and time, truncated to nanoseconds. A time without an offset is UTC.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidTime`] if the text is not an ISO 8601 date and time.
    pub fn parse(text: &str) -> Result<Self, InvalidTime> {
        Ok(Self::from_nanos(timestamp(text)?.as_nanosecond()))
    }

    /// Returns the time of a version item, or of a view. `None` if the item has none.
    pub fn of(item: &Item) -> Option<Self> {
        Self::parse(text(item, names::RECORDED_AT)?).ok()
    }

    /// Returns the time of a latest item: its `RecordedAt` with its `RecordedTick`. `None` if the item has none.
    pub fn of_latest(item: &Item) -> Option<Self> {
        let tick = whole(item, names::RECORDED_TICK).and_then(|tick| u16::try_from(tick).ok());
        Some(Self::of(item)?.after_ticks(tick.unwrap_or_default()))
    }

    /// Returns the time without its ticks.
    #[must_use]
    pub fn without_ticks(self) -> Self {
        Self::from_nanos(self.0.as_nanosecond() - i128::from(self.ticks()))
    }

    /// Returns the number of ticks after the clock's time.
    pub fn ticks(self) -> u16 {
        u16::try_from(self.0.as_nanosecond().rem_euclid(NANOS_PER_MICRO)).unwrap_or_default()
    }

    /// Returns a later time of the clock: the next microsecond.
    #[must_use]
    pub fn next_micro(self) -> Self {
        Self::from_nanos(self.without_ticks().0.as_nanosecond() + NANOS_PER_MICRO)
    }

    /// Returns the time a number of ticks later.
    #[must_use]
    pub fn after_ticks(self, ticks: u16) -> Self {
        Self::from_nanos(self.0.as_nanosecond() + i128::from(ticks))
    }

    /// Returns the time a duration later.
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        let nanos = i128::try_from(duration.as_nanos()).unwrap_or(i128::MAX);
        Self::from_nanos(self.0.as_nanosecond().saturating_add(nanos))
    }

    /// Returns the time a duration earlier.
    #[must_use]
    pub fn before(self, duration: Duration) -> Self {
        let nanos = i128::try_from(duration.as_nanos()).unwrap_or(i128::MAX);
        Self::from_nanos(self.0.as_nanosecond().saturating_sub(nanos))
    }

    /// Returns `true` if the time is more than [`MAX_AHEAD`] after the time of a clock.
    pub fn is_ahead_of(self, now: Self) -> bool {
        self > now.after(MAX_AHEAD)
    }

    /// Returns the time in milliseconds, rounded down.
    pub fn floor_millis(self) -> EpochMillis {
        let millis = self.0.as_nanosecond().div_euclid(1_000_000);
        EpochMillis::new(i64::try_from(millis).unwrap_or_default())
    }

    /// Returns the time since 1970-01-01T00:00:00Z, zero for an earlier time.
    pub fn to_duration(self) -> Duration {
        u64::try_from(self.floor_millis().get()).map_or(Duration::ZERO, Duration::from_millis)
    }

    /// Returns the first millisecond after the time.
    pub fn next_milli(self) -> EpochMillis {
        EpochMillis::new(self.floor_millis().get() + 1)
    }

    /// Returns the attribute value.
    pub fn value(self) -> AttributeValue {
        AttributeValue::S(self.to_string())
    }
}

impl fmt::Display for RecordedAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.9}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn at(text: &str) -> RecordedAt {
        RecordedAt::parse(text).unwrap()
    }

    #[test]
    fn texts_are_parsed_and_written() {
        for (text, expected) in [
            ("2026-11-22T06:24:48.123456003Z", "2026-11-22T06:24:48.123456003Z"),
            ("2026-11-22T06:24:48Z", "2026-11-22T06:24:48.000000000Z"),
            ("2026-11-22T07:24:48.1+01:00", "2026-11-22T06:24:48.100000000Z"),
            ("2026-11-22", "2026-11-22T00:00:00.000000000Z"),
            ("1969-12-31T23:59:59.9", "1969-12-31T23:59:59.900000000Z"),
        ] {
            assert_eq!(at(text).to_string(), expected);
        }
        assert!(RecordedAt::parse("06:24").is_err());
    }

    #[test]
    fn ticks_follow_the_time_of_the_clock() {
        let time = RecordedAt::since_epoch(Duration::from_nanos(1_795_328_688_123_456_789));
        assert_eq!(time.ticks(), 0);
        let third = time.after_ticks(3);
        assert_eq!((third.ticks(), third.without_ticks()), (3, time));
        assert!(time < third && third < time.after_ticks(RecordedAt::MAX_TICKS));
        assert!(time.after_ticks(RecordedAt::MAX_TICKS) < time.next_micro());
        assert_eq!(time.floor_millis().get(), 1_795_328_688_123);
        assert_eq!(time.next_milli().get(), 1_795_328_688_124);
        let latest: Item =
            serde_json::from_value(json!({"RecordedAt": {"S": time.to_string()}, "RecordedTick": {"N": "3"}})).unwrap();
        assert_eq!(RecordedAt::of_latest(&latest), Some(third));
        assert_eq!(RecordedAt::of(&latest), Some(time));
    }

    #[test]
    fn versions_of_one_second_have_different_times() {
        let version = |number| Version::new(number).unwrap();
        let time = |created, number| RecordedAt::of_stream_record(created, version(number)).to_string();
        assert_eq!(time(1_795_328_688_000_000, 7), "2026-11-22T06:24:48.000007000Z");
        assert_eq!(time(1_795_328_688_123_456, 7), "2026-11-22T06:24:48.123456007Z");
    }

    proptest! {
        #[test]
        fn texts_sort_as_times(a in any::<i64>(), b in any::<i64>(), ticks in 0..=RecordedAt::MAX_TICKS) {
            let (a, b) = (RecordedAt::from_micros(a).after_ticks(ticks), RecordedAt::from_micros(b));
            prop_assert_eq!(a.to_string().len(), 30);
            prop_assert_eq!(a.to_string().cmp(&b.to_string()), a.cmp(&b));
            prop_assert_eq!(RecordedAt::parse(&a.to_string()), Ok(a));
        }
    }
}
