//! Virtual time, as the functions, the mapping and the database read it.

use std::time::Duration;

use dynoxide::storage_backend;
use local::mapping;
use shared::clock;
use tokio::time::Instant;

/// Start of virtual time: 2026-01-01T00:00:00Z.
const START_MILLIS: u64 = 1_767_225_600_000;

/// Virtual time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock(pub(crate) Instant);

impl Clock {
    /// Returns a clock that differs by an offset in milliseconds.
    pub(crate) fn shifted(self, offset: i64) -> clock::Clock {
        let start = Duration::from_millis(START_MILLIS.saturating_add_signed(offset));
        clock::Clock::new(move || start + self.0.elapsed())
    }

    pub(crate) fn millis(&self) -> u64 {
        u64::try_from(mapping::Clock::now(self).as_millis()).unwrap_or(u64::MAX)
    }
}

impl mapping::Clock for Clock {
    fn now(&self) -> Duration {
        Duration::from_millis(START_MILLIS) + self.0.elapsed()
    }
}

impl storage_backend::Clock for Clock {
    fn now_unix_secs(&self) -> u64 {
        mapping::Clock::now(self).as_secs()
    }

    fn now_unix_secs_f64(&self) -> f64 {
        mapping::Clock::now(self).as_secs_f64()
    }
}
