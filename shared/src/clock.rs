//! The only place that reads the wall clock.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

/// The time since 1970-01-01T00:00:00Z.
pub fn since_epoch() -> Duration {
    #[allow(clippy::disallowed_methods, reason = "this is the room that owns the clock")]
    let now = SystemTime::now();
    now.duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Until when an invocation starts new work, and until when it may wait for work under way.
///
/// Whatever is not done by then goes into the answer as not done, instead of being cut off by the service.
#[derive(Debug, Clone, Copy)]
pub struct Deadline {
    /// Nothing new is started from here on.
    pub start_by: Instant,
    /// Nothing is waited for from here on.
    pub finish_by: Instant,
}

impl Deadline {
    /// The time kept for the answer itself.
    const RESPONSE_TIME: Duration = Duration::from_millis(500);
    /// The time that one request is given when it starts late.
    const REQUEST_TIME: Duration = Duration::from_secs(2);

    /// What an invocation is taken to have where nobody says when it ends.
    const UNKNOWN: Duration = Duration::from_secs(30);
    /// 2017-07-14T02:40:00Z. What lies before is no time of an invocation: `cargo lambda watch` sends a number of
    /// milliseconds there, and a test nothing.
    const EARLIEST: u64 = 1_500_000_000_000;

    /// For an invocation that the service will end at this time, in epoch milliseconds.
    pub fn at_epoch_millis(deadline: u64) -> Self {
        if deadline < Self::EARLIEST {
            return Self::after(Self::UNKNOWN);
        }
        Self::after(Duration::from_millis(deadline).saturating_sub(since_epoch()))
    }

    /// For an invocation that has this much time left. With little of it, half is kept for each part.
    pub fn after(left: Duration) -> Self {
        let now = Instant::now();
        let finish = left.saturating_sub(Self::RESPONSE_TIME.min(left / 4));
        let start = finish.saturating_sub(Self::REQUEST_TIME.min(finish / 2));
        Self {
            start_by: now + start,
            finish_by: now + finish,
        }
    }

    /// Whether new work may still start.
    pub fn allows_start(&self) -> bool {
        Instant::now() < self.start_by
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_part_of_the_time_is_kept_back() {
        let now = Instant::now();
        let check = |left, start, finish| {
            let deadline = Deadline::after(Duration::from_millis(left));
            assert_eq!(
                deadline.start_by - now,
                Duration::from_millis(start),
                "start with {left}"
            );
            assert_eq!(
                deadline.finish_by - now,
                Duration::from_millis(finish),
                "finish with {left}"
            );
        };
        check(30_000, 27_500, 29_500);
        check(1_000, 375, 750);
        check(0, 0, 0);
        let now = u64::try_from(since_epoch().as_millis()).unwrap();
        assert!(Deadline::at_epoch_millis(now + 30_000).allows_start());
        assert!(!Deadline::at_epoch_millis(now - 1).allows_start());
        for no_time in [0, 600_000] {
            assert!(Deadline::at_epoch_millis(no_time).allows_start());
        }
        assert!(!Deadline::after(Duration::ZERO).allows_start());
        assert!(Deadline::after(Duration::from_secs(30)).allows_start());
    }
}
