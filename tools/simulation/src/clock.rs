//! Virtual time, as the functions, the mapping and the database read it.

use std::{sync::Arc, time::Duration};

use dynoxide::{Database, storage_backend};
use local::mapping;
use shared::clock;
use tokio::time::Instant;

use crate::{error::SimulationError, schedule::Settings};

/// Start of virtual time: 2026-01-01T00:00:00Z.
const START_MILLIS: u64 = 1_767_225_600_000;

/// Clock of a writer process.
#[derive(Debug, Clone)]
pub(crate) struct ProcessClock {
    /// Offsets, with the milliseconds from the start from which each holds. In the order of these times.
    offsets: Vec<(u64, i64)>,
}

impl ProcessClock {
    /// Returns the clock of a process.
    pub(crate) fn of(settings: &Settings, process: usize) -> Self {
        let first = settings.clock_offsets.get(process).copied().unwrap_or(0);
        let jumps = settings.clock_jumps.iter().filter(|jump| jump.process == process);
        let jumps = jumps.map(|jump| (jump.at, jump.offset));
        let mut offsets: Vec<_> = [(0, first)].into_iter().chain(jumps).collect();
        offsets.sort_by_key(|(at, _)| *at);
        Self { offsets }
    }

    /// Returns the time of the clock.
    fn at(&self, elapsed: Duration) -> Duration {
        let passed = |(at, _): &&(u64, i64)| Duration::from_millis(*at) <= elapsed;
        let offset = self.offsets.iter().rfind(passed).map_or(0, |(_, offset)| *offset);
        Duration::from_millis(START_MILLIS.saturating_add_signed(offset)) + elapsed
    }

    /// Returns the latest time that the clock has shown until now.
    pub(crate) fn latest(&self, elapsed: Duration) -> Duration {
        let jumps = self.offsets.iter().skip(1).map(|(at, _)| Duration::from_millis(*at));
        let ends = jumps.filter(|at| *at <= elapsed);
        let before_jumps = ends.map(|at| self.at(at.saturating_sub(Duration::from_nanos(1))));
        before_jumps.chain([self.at(elapsed)]).max().unwrap_or_default()
    }
}

/// Runs a future in one thread and in virtual time. The seed determines it completely.
pub(crate) fn in_virtual_time<T>(seed: u64, future: impl Future<Output = T>) -> Result<T, SimulationError> {
    // The random number generator of the SDK and the library.
    fastrand::seed(seed);
    sealing::keys::seed();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .map_err(SimulationError::Runtime)?;
    Ok(runtime.block_on(future))
}

/// Virtual time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock(pub(crate) Instant);

impl Clock {
    /// Opens an empty database with this clock.
    pub(crate) fn database(self) -> Result<Database, SimulationError> {
        Database::memory_with_clock(Arc::new(self)).map_err(SimulationError::OpenDatabase)
    }

    /// Returns this clock, for the library.
    pub(crate) fn of_library(self) -> clock::Clock {
        clock::Clock::new(move || mapping::Clock::now(&self))
    }

    /// Returns the clock of a writer process.
    pub(crate) fn of_process(self, process: ProcessClock) -> clock::Clock {
        clock::Clock::new(move || process.at(self.0.elapsed()))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_time_of_a_clock_is_before_it_jumps_back() {
        let start = Duration::from_millis(START_MILLIS);
        let second = Duration::from_secs;
        let clock = ProcessClock {
            offsets: vec![(0, 1000), (5000, 4000), (10_000, -2000)],
        };
        for (elapsed, time, latest) in [(0, 1, 1), (4, 5, 5), (5, 9, 9), (9, 13, 13), (10, 8, 14), (20, 18, 18)] {
            assert_eq!(clock.at(second(elapsed)), start + second(time), "{elapsed}");
            let shown = clock.latest(second(elapsed)).saturating_sub(start);
            assert_eq!((shown + second(1) / 2).as_secs(), latest, "{elapsed}");
        }
    }
}
