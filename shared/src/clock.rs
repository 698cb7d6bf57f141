//! Wall clock and deadlines. No other module reads the wall clock.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use tokio::time::Instant;

/// Returns the time since 1970-01-01T00:00:00Z.
pub fn since_epoch() -> Duration {
    #[allow(clippy::disallowed_methods, reason = "this module owns the clock")]
    let now = SystemTime::now();
    now.duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Clock that gives the time since 1970-01-01T00:00:00Z: the wall clock, or one of a simulation.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Duration + Send + Sync>);

impl Clock {
    /// Creates a clock from a function that returns the time since 1970-01-01T00:00:00Z.
    pub fn new(now: impl Fn() -> Duration + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// Returns the time since 1970-01-01T00:00:00Z.
    pub fn now(&self) -> Duration {
        (self.0)()
    }
}

impl Default for Clock {
    /// Returns the wall clock.
    fn default() -> Self {
        Self::new(since_epoch)
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock(..)")
    }
}

/// Deadline of an invocation: when to stop starting work, and when to stop waiting for it. Work that is not complete by then
/// is reported as failed, before Lambda ends the invocation.
///
/// ```text
/// ──── work ────┬──── last request ────┬── logs, metrics, response ──┤ Lambda ends the invocation
///           start_by (2 s)        finish_by (500 ms)
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Deadline {
    /// Time from which no new work starts.
    pub start_by: Instant,
    /// Time from which no work is awaited.
    pub finish_by: Instant,
}

impl Deadline {
    /// Time reserved for logs, metrics and the response.
    const RESPONSE_TIME: Duration = Duration::from_millis(500);
    /// Time reserved for the last request.
    const REQUEST_TIME: Duration = Duration::from_secs(2);

    /// Assumed duration of an invocation without a deadline.
    const UNKNOWN: Duration = Duration::from_secs(30);
    /// 2017-07-14T02:40:00Z. An earlier time is not a deadline: `cargo lambda watch` sends a duration, and tests send 0.
    const EARLIEST: u64 = 1_500_000_000_000;

    /// Creates the deadline of an invocation that Lambda ends at this time, in epoch milliseconds.
    pub fn at_epoch_millis(deadline: u64) -> Self {
        if deadline < Self::EARLIEST {
            return Self::after(Self::UNKNOWN);
        }
        Self::after(Duration::from_millis(deadline).saturating_sub(since_epoch()))
    }

    /// Creates the deadline of an invocation with this remaining time. If it is short, the reserved times are shorter.
    pub fn after(left: Duration) -> Self {
        let now = Instant::now();
        let reserved = Self::RESPONSE_TIME.min(left / 4);
        let finish = left.saturating_sub(reserved);
        let start = finish.saturating_sub(Self::REQUEST_TIME.min(finish / 2));
        Self {
            start_by: now + start,
            finish_by: now + finish,
        }
    }

    /// Returns `true` if new work may start.
    pub fn allows_start(&self) -> bool {
        Instant::now() < self.start_by
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn time_is_reserved_for_the_response() {
        let now = Instant::now();
        let check = |left, start, finish| {
            let deadline = Deadline::after(Duration::from_millis(left));
            let times = [deadline.start_by - now, deadline.finish_by - now];
            assert_eq!(times, [start, finish].map(Duration::from_millis), "{left}");
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
