//! Waiting for history: its reads are repeated less and less often, until a limit.

use std::time::Duration;

use tokio::time::{Instant, sleep};

/// Wait before the second read; it doubles up to [`MAX_INTERVAL`].
const INITIAL_INTERVAL: Duration = Duration::from_millis(50);
/// Maximum wait between two reads.
const MAX_INTERVAL: Duration = Duration::from_millis(500);

/// Waits between reads.
pub struct Waiting {
    end: Instant,
    interval: Duration,
}

impl Waiting {
    /// Begins to wait, at most for this time.
    pub fn at_most(limit: Duration) -> Self {
        Self {
            end: Instant::now() + limit,
            interval: INITIAL_INTERVAL,
        }
    }

    /// Waits. Returns `false` at once if the time is over.
    pub async fn again(&mut self) -> bool {
        let left = self.end.saturating_duration_since(Instant::now());
        sleep(self.interval.min(left)).await;
        self.interval = (self.interval * 2).min(MAX_INTERVAL);
        !left.is_zero()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn reads_end_at_the_limit() {
        let (start, mut waiting, mut reads) = (Instant::now(), Waiting::at_most(Duration::from_secs(2)), 1);
        while waiting.again().await {
            reads += 1;
        }
        assert_eq!((start.elapsed(), reads), (Duration::from_secs(2), 8));
    }
}
