//! Time at which an update was sent: the bounds within which an earlier delivery of it is looked for.
//!
//! Each request in the [recent requests](crate::counter::recent_requests) has the [`latest`](SentAt::latest) time at which it can have been
//! sent, and the latest item has the maximum of those that were dropped. If this maximum is before the
//! [`earliest`](SentAt::earliest) time of an update, then no earlier delivery of the update was dropped. This holds because of any
//! two deliveries, `earliest` of the one is not after `latest` of the other:
//!
//! | time | earliest | latest |
//! |---|---|---|
//! | `SentTimestamp` of a queue message, `approximateArrivalTimestamp` of a record | the same for each delivery | the same |
//! | `time` of an event, `Timestamp` of a notification | the same for each carrier | the same |
//! | an id of an event or a notification that has no time | 30 h before `SentTimestamp` of its message: another message can have it | `SentTimestamp` |
//! | a claim of the sender, start of an invocation | 10 s before it: the sender's clock and the writer's | clock of the writer |
//!
//! A claimed time after the time of its carrier is wrong. It is replaced by the carrier's time less [`MAX_DELAY`]. A later carrier of
//! the same update cannot see that its time was wrong. So the latest item has the latest time that was claimed in the future
//! ([`REQUESTS_AHEAD`](shared::domain::names::REQUESTS_AHEAD)): for an update that claims an earlier one, the search for an earlier delivery
//! starts [`MAX_DELAY`] earlier.

use std::time::Duration;

use shared::domain::time::EpochMillis;

/// Assumed maximum difference between a clock and the true time. AWS keeps the clocks of its functions and services
/// [synchronized](https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/set-time.html) to milliseconds.
pub const MAX_CLOCK_DIFFERENCE: Duration = Duration::from_secs(5);
/// Maximum time between two deliveries of one event by different carriers: `EventBridge` retries for
/// [24 hours](https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-rule-retry-policy.html), and Lambda an asynchronous
/// invocation for [6 hours](https://docs.aws.amazon.com/lambda/latest/dg/invocation-async-error-handling.html).
pub const MAX_DELAY: Duration = Duration::from_secs(30 * 3600);

/// Bounds of the time at which an update was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SentAt {
    /// No delivery was sent before this time, in epoch milliseconds.
    pub earliest: EpochMillis,
    /// This delivery was not sent after this time, in epoch milliseconds. `None` if only the clock of the writer bounds it.
    pub latest: Option<EpochMillis>,
    /// `true` if a sender claimed the time, by a clock that can be wrong.
    pub is_claimed: bool,
    /// `true` if the claimed time is after the time of the carrier.
    pub is_ahead: bool,
}

impl SentAt {
    /// Returns the bounds of a message that has the same time in each delivery.
    pub fn exactly(time: EpochMillis) -> Self {
        Self {
            earliest: time,
            latest: Some(time),
            is_claimed: false,
            is_ahead: false,
        }
    }

    /// Returns the bounds of an event that has the same time in each delivery, according to its sender.
    pub fn claimed(time: EpochMillis) -> Self {
        Self {
            is_claimed: true,
            ..Self::exactly(time)
        }
    }

    /// Returns the bounds of an update that other carriers can deliver, too, and that names no time. `carrier` is the time of
    /// the queue message that delivers it.
    pub fn by_any_carrier(carrier: EpochMillis) -> Self {
        Self {
            earliest: before(carrier, MAX_DELAY),
            ..Self::exactly(carrier)
        }
    }

    /// Returns the bounds of an update that was not sent before this time, according to another clock.
    pub fn since(time: EpochMillis) -> Self {
        Self {
            earliest: before(time, 2 * MAX_CLOCK_DIFFERENCE),
            latest: None,
            is_claimed: true,
            is_ahead: false,
        }
    }

    /// Returns the bounds of an update whose id can have been sent at either time.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            earliest: self.earliest.min(other.earliest),
            // Without a latest time, the clock of the writer is later than the other time.
            latest: self.latest.zip(other.latest).map(|(latest, other)| latest.max(other)),
            is_claimed: self.is_claimed || other.is_claimed,
            is_ahead: self.is_ahead || other.is_ahead,
        }
    }

    /// Returns the bounds that hold also if the time was claimed by a sender whose clock is wrong. `carrier` is the time of the
    /// queue message or invocation that delivers the update.
    #[must_use]
    pub fn carried_at(self, carrier: EpochMillis) -> Self {
        if self.earliest <= carrier {
            return self;
        }
        Self {
            earliest: before(carrier, MAX_DELAY),
            // Another carrier can deliver the update when the claimed time is no longer in the future.
            latest: Some(self.latest.unwrap_or(self.earliest).min(after(carrier, MAX_DELAY))),
            is_ahead: true,
            ..self
        }
    }
}

/// Returns the time a duration earlier.
pub fn before(time: EpochMillis, duration: Duration) -> EpochMillis {
    EpochMillis::new(time.get().saturating_sub(millis(duration)))
}

/// Returns the time a duration later.
pub fn after(time: EpochMillis, duration: Duration) -> EpochMillis {
    EpochMillis::new(time.get().saturating_add(millis(duration)))
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOURS_30: i64 = 30 * 3_600_000;

    fn bounds(sent: SentAt) -> (i64, Option<i64>) {
        (sent.earliest.get(), sent.latest.map(EpochMillis::get))
    }

    #[test]
    fn a_claimed_time_in_the_future_is_not_used() {
        let time = EpochMillis::new;
        let carrier = 1_795_328_688_000;
        let exactly = |millis| SentAt::exactly(time(millis));
        let since = |millis| SentAt::since(time(millis));
        let before = carrier - HOURS_30;
        for (sent, expected) in [
            (exactly(carrier), (carrier, Some(carrier))),
            (exactly(carrier - 5), (carrier - 5, Some(carrier - 5))),
            (exactly(carrier + 5), (before, Some(carrier + 5))),
            (exactly(i64::MAX), (before, Some(carrier + HOURS_30))),
            (since(carrier), (carrier - 10_000, None)),
            (since(carrier + 10_000), (carrier, None)),
            (since(carrier + 10_001), (before, Some(carrier + 1))),
            (since(i64::MIN), (i64::MIN, None)),
        ] {
            assert_eq!(bounds(sent.carried_at(time(carrier))), expected, "{sent:?}");
        }
    }

    /// Two carriers of one event, with any claimed time.
    #[test]
    fn the_earliest_time_of_a_delivery_is_not_after_the_latest_of_another() {
        for claimed in (0..200).map(|hour| hour * 3_600_000) {
            for first in (50..90).map(|hour| hour * 3_600_000) {
                for second in [first - HOURS_30, first - 1, first, first + 1, first + HOURS_30] {
                    let sent = SentAt::exactly(EpochMillis::new(claimed));
                    let [first, second] = [first, second].map(|carrier| sent.carried_at(EpochMillis::new(carrier)));
                    assert!(Some(second.earliest) <= first.latest, "{first:?} {second:?}");
                }
            }
        }
    }
}
