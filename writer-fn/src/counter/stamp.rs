//! Time that an update gives to its version: a hybrid logical clock with one request in the common case.
//!
//! | stamp | sets | condition |
//! |---|---|---|
//! | [`Stamp::At`] | `RecordedAt` to the writer's time | the latest item is older |
//! | [`Stamp::Tick`] | `RecordedTick` one higher | the latest item has the time that was read, or a later one |
//! | [`Stamp::Over`] | `RecordedAt` to the writer's time, or to the next one | the latest item still has the value that was read |
//!
//! A writer first uses `At`. The condition fails if the latest item is not older: another writer's clock is ahead, or that
//! writer was faster. Then it uses `Tick`, which cannot lose against other writers. So `RecordedAt` never decreases, and is the time
//! of some writer's clock: a thousand ticks are one microsecond.
//!
//! Conditions compare texts, whose order is the order of times only in the form of [`RecordedAt`]. If another program wrote a value
//! of another form, such as `2026-11-22T07:24:48+01:00` or a number, `Over` replaces it.

use std::time::Duration;

use shared::{
    domain::{AttributeValue, Item, names, recorded_at::RecordedAt},
    dynamodb::{expression::Expression, n, s},
};

use crate::counter::rules::{self, assign};

/// Maximum time by which a writer's clock is ahead of the latest item when a tick is used, because the writer lost a race.
pub const MAX_RACE: Duration = Duration::from_secs(1);

/// Time that an update gives to its version.
#[derive(Debug, Clone, PartialEq)]
pub enum Stamp {
    /// A time later than that of the latest item.
    At(RecordedAt),
    /// The time of the latest item, and one more tick.
    Tick {
        /// Earliest time of the latest item.
        from: RecordedAt,
    },
    /// Later than the `RecordedAt` of the latest item, which has another form.
    Over {
        /// Time of the version.
        time: RecordedAt,
        /// `RecordedAt` of the latest item.
        stored: AttributeValue,
    },
}

impl Stamp {
    /// Returns the stamp that fits a stored latest item, at this time of the writer's clock.
    pub fn fitting(now: RecordedAt, stored: Option<&Item>) -> Self {
        let Some(value) = stored.and_then(|stored| stored.get(names::RECORDED_AT)) else {
            return Self::At(now);
        };
        let recorded = stored.and_then(RecordedAt::of);
        let Some(recorded) = recorded.filter(|recorded| recorded.value() == *value) else {
            let next = stored.and_then(RecordedAt::of_latest).map(RecordedAt::next_micro);
            let (time, stored) = (next.map_or(now, |next| next.max(now)), value.clone());
            return Self::Over { time, stored };
        };
        let last = stored.and_then(RecordedAt::of_latest).unwrap_or(recorded);
        if last < now {
            Self::At(now)
        } else if last.ticks() < RecordedAt::MAX_TICKS {
            Self::Tick { from: recorded }
        } else {
            Self::At(last.next_micro())
        }
    }

    /// Returns one time for the versions of several latest items that are written together: that of the writer's clock, or the first one
    /// after that of each of them.
    pub fn common_time<'a>(now: RecordedAt, stored: impl Iterator<Item = &'a Item>) -> RecordedAt {
        let last = stored
            .filter_map(RecordedAt::of_latest)
            .filter(|last| now <= *last)
            .max();
        last.map_or(now, RecordedAt::next_micro)
    }

    /// Returns the stamp that fits a stored latest item after a request with this stamp failed: a tick, if the stamp was the
    /// reason, and the latest item is recent and not older than `first`, the time of the first request.
    #[must_use]
    pub fn after_failure(&self, now: RecordedAt, first: RecordedAt, stored: Option<&Item>) -> Self {
        let recorded = stored.and_then(RecordedAt::of).filter(|_| !self.holds_for(stored));
        let raced = recorded.filter(|recorded| first <= *recorded && now < recorded.after(MAX_RACE));
        Self::fitting(raced.unwrap_or(now), stored)
    }

    /// Returns `true` if its condition holds for the stored latest item.
    fn holds_for(&self, stored: Option<&Item>) -> bool {
        rules::hold(|expression| self.add_to(expression), stored)
    }

    /// Adds this part to an update's expression.
    pub(crate) fn add_to(&self, expression: &mut Expression) {
        let clock = s(self.clock().to_string());
        if let Self::Tick { .. } = self {
            rules::set(expression, "#tick = if_not_exists(#tick, :zero) + :one");
            expression
                .value(":ticks", n(RecordedAt::MAX_TICKS))
                .value(":recorded", clock);
            rules::SAME_CLOCK.add_to(expression);
            rules::TICKS.add_to(expression);
            return;
        }
        assign(expression, "#recorded = :recorded", clock);
        rules::remove(expression, "#tick");
        match self {
            Self::Over { stored, .. } => {
                expression.value(":stored", stored.clone().into());
                rules::OTHER_FORM.add_to(expression);
            }
            _ => rules::CLOCK.add_to(expression),
        }
    }

    /// Returns the time in the request: that of the version, or the earliest one of the latest item.
    pub fn clock(&self) -> RecordedAt {
        match self {
            Self::At(time) | Self::Over { time, .. } => *time,
            Self::Tick { from } => *from,
        }
    }

    /// Returns the time of the version, if the latest item is still the stored one.
    pub fn time(&self, stored: Option<&Item>) -> RecordedAt {
        match self {
            Self::At(time) | Self::Over { time, .. } => *time,
            Self::Tick { from } => stored.and_then(RecordedAt::of_latest).unwrap_or(*from).after_ticks(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn at(second: u64) -> RecordedAt {
        RecordedAt::since_epoch(Duration::from_secs(second))
    }

    fn stored(time: RecordedAt, ticks: u16) -> Item {
        let item = json!({"RecordedAt": {"S": time.to_string()}, "RecordedTick": {"N": ticks.to_string()}});
        serde_json::from_value(item).unwrap()
    }

    #[test]
    fn a_lost_race_is_not_run_again() {
        let tick = Stamp::Tick { from: at(50) };
        let half = at(50).after(MAX_RACE / 2);
        for (stamp, now, first, expected) in [
            (Stamp::At(at(50)), half, at(50), tick.clone()),
            (Stamp::At(at(49)), half, at(49), tick.clone()),
            // The latest item was not the reason, is too old, or is older than the first request, which can still be applied.
            (Stamp::At(at(51)), at(52), at(49), Stamp::At(at(52))),
            (Stamp::At(at(49)), at(51), at(49), Stamp::At(at(51))),
            (Stamp::At(at(49)), half, half, Stamp::At(half)),
        ] {
            assert_eq!(
                stamp.after_failure(now, first, Some(&stored(at(50), 0))),
                expected,
                "{stamp:?}"
            );
        }
        assert_eq!(tick.after_failure(at(60), at(60), None), Stamp::At(at(60)));
    }

    #[test]
    fn a_stamp_is_later_than_the_stored_time() {
        let tick = Stamp::Tick { from: at(5) };
        for (now, item, expected) in [
            (at(5), None, Stamp::At(at(5))),
            (at(6), Some(stored(at(5), 3)), Stamp::At(at(6))),
            (at(5), Some(stored(at(5), 0)), tick.clone()),
            (at(1), Some(stored(at(5), 998)), tick.clone()),
            (at(1), Some(stored(at(5), 999)), Stamp::At(at(5).next_micro())),
        ] {
            let stamp = Stamp::fitting(now, item.as_ref());
            assert_eq!(stamp, expected);
            assert!(stamp.holds_for(item.as_ref()));
            let before = item.as_ref().and_then(RecordedAt::of_latest);
            assert!(before.is_none_or(|before| before < stamp.time(item.as_ref())));
        }
        assert!(!tick.holds_for(None) && !tick.holds_for(Some(&stored(at(4), 0))));
        assert!(!tick.holds_for(Some(&stored(at(5), 999))));
        // A tick is valid for ever: the version that was read protects against a second application.
        assert!(tick.holds_for(Some(&stored(at(500), 0))));
    }

    #[test]
    fn versions_that_are_written_together_have_one_time_after_all_others() {
        let ahead = stored(at(7), 3);
        let mut other_form = Item::default();
        other_form.insert(
            names::RECORDED_AT.to_owned(),
            AttributeValue::S("1970-01-01T00:00:06Z".to_owned()),
        );
        for (now, items, expected) in [
            (5, vec![], at(5)),
            (8, vec![&ahead, &other_form], at(8)),
            (7, vec![&ahead], at(7).next_micro()),
            (6, vec![&other_form], at(6).next_micro()),
            (5, vec![&other_form, &ahead], at(7).next_micro()),
        ] {
            let time = Stamp::common_time(at(now), items.iter().copied());
            assert_eq!(time, expected);
            for item in items.into_iter().map(Some).chain([None]) {
                let stamp = Stamp::fitting(time, item);
                assert_eq!(stamp.time(item), time);
                assert!(stamp.holds_for(item) && !matches!(stamp, Stamp::Tick { .. }));
            }
        }
    }

    #[test]
    fn a_time_in_another_form_is_replaced() {
        let now = at(1_795_328_688);
        for (value, expected) in [
            (json!({"S": "2026-11-22T07:24:48+01:00"}), now.next_micro()),
            (
                json!({"S": "2026-11-22T06:24:48.5"}),
                at(1_795_328_688).after(Duration::from_micros(500_001)),
            ),
            (
                json!({"S": "2027-01-01"}),
                RecordedAt::parse("2027-01-01T00:00:00.000001Z").unwrap(),
            ),
            (json!({"S": "tomorrow"}), now),
            (json!({"N": "1795328688"}), now),
        ] {
            let item: Item = serde_json::from_value(json!({"RecordedAt": value})).unwrap();
            let stamp = Stamp::fitting(now, Some(&item));
            assert_eq!(stamp.clock(), expected, "{value}");
            assert!(stamp.holds_for(Some(&item)), "{value}");
            assert!(!stamp.holds_for(None) && !stamp.holds_for(Some(&stored(at(5), 0))));
            // The condition of the first request compares texts.
            assert!(!Stamp::At(now).holds_for(Some(&item)), "{value}");
        }
    }
}
