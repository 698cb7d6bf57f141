//! Number of events in a sliding window, as counts of whole seconds.

use std::{collections::VecDeque, time::Duration};

/// Events of the last seconds.
#[derive(Debug, Default)]
pub(super) struct Rate {
    /// Seconds of the clock with their counts, oldest first.
    seconds: VecDeque<(u64, u64)>,
}

impl Rate {
    /// Length of the window in seconds.
    pub(super) const WINDOW: u64 = 5;

    pub(super) fn add(&mut self, now: Duration, count: u64) {
        let now = now.as_secs();
        match self.seconds.back_mut() {
            // A clock that is set back adds to the newest second.
            Some((second, counted)) if *second >= now => *counted += count,
            _ => self.seconds.push_back((now, count)),
        }
        while self
            .seconds
            .front()
            .is_some_and(|(second, _)| second + Self::WINDOW <= now)
        {
            self.seconds.pop_front();
        }
    }

    /// Returns the number of events within the window.
    pub(super) fn count(&self, now: Duration) -> u64 {
        let within = |second: u64| second + Self::WINDOW > now.as_secs();
        let seconds = self.seconds.iter().filter(|(second, _)| within(*second));
        seconds.map(|(_, count)| count).sum()
    }

    /// Formats a number of events within the window as events per second.
    pub(super) fn per_second(count: u64) -> String {
        let tenths = count.saturating_mul(10) / Self::WINDOW;
        match tenths {
            100.. => format!("{}/s", tenths / 10),
            _ => format!("{}.{}/s", tenths / 10, tenths % 10),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_leave_the_window_after_five_seconds() {
        let mut rate = Rate::default();
        let at = Duration::from_millis;
        rate.add(at(10_900), 3);
        rate.add(at(11_000), 1);
        assert_eq!([15_999, 16_000, 17_000].map(|now| rate.count(at(now))), [1, 0, 0]);
        assert_eq!(rate.count(at(14_999)), 4);
        // The clock is set back.
        rate.add(at(9_000), 2);
        assert_eq!(rate.count(at(11_000)), 6);
        rate.add(at(60_000), 1);
        assert_eq!(rate.seconds.len(), 1);
    }

    #[test]
    fn small_rates_have_a_decimal() {
        let counts = [0, 1, 8, 49, 50, 12_345];
        assert_eq!(
            counts.map(Rate::per_second),
            ["0.0/s", "0.2/s", "1.6/s", "9.8/s", "10/s", "2469/s"]
        );
        assert_eq!(Rate::per_second(u64::MAX).as_bytes().last(), Some(&b's'));
    }
}
