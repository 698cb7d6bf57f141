//! The settings of a mapping, in Lambda's own terms and bounds.

use std::time::Duration;

use thiserror::Error;

use super::filter::{Filters, InvalidFilter};

/// The settings that decide how a mapping behaves.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The most records of one invocation: 1 to 10,000, default 100.
    pub batch_size: usize,
    /// How long a batch may wait to be filled: up to 300 s, default 0.
    pub batching_window: Duration,
    /// How many batches of one shard are under way at once: 1 to 10, default 1.
    pub parallelization_factor: usize,
    /// Whether a failed batch is halved.
    pub bisect_on_function_error: bool,
    /// Whether the function says which records failed.
    pub report_batch_item_failures: bool,
    /// How often a failed batch is tried again: 0 to 10,000, no bound without it.
    pub maximum_retry_attempts: Option<u32>,
    /// How old a record may be when it is delivered: 60 s to 7 days, no bound without it.
    pub maximum_record_age: Option<Duration>,
    /// Which records are delivered.
    pub filters: Filters,
    /// Where a stream is read from at first.
    pub starting_position: StartingPosition,
}

/// Where a stream is read from at first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartingPosition {
    /// From the oldest record there is.
    TrimHorizon,
    /// From the next record on.
    Latest,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            batch_size: 100,
            batching_window: Duration::ZERO,
            parallelization_factor: 1,
            bisect_on_function_error: false,
            report_batch_item_failures: false,
            maximum_retry_attempts: None,
            maximum_record_age: None,
            filters: Filters::default(),
            starting_position: StartingPosition::TrimHorizon,
        }
    }
}

impl Settings {
    /// Checks Lambda's own bounds.
    pub fn checked(self) -> Result<Self, InvalidSettings> {
        let check = |name, ok| {
            if ok {
                Ok(())
            } else {
                Err(InvalidSettings::OutOfBounds { name })
            }
        };
        check("BatchSize", (1..=10_000).contains(&self.batch_size))?;
        check(
            "MaximumBatchingWindowInSeconds",
            self.batching_window <= Duration::from_secs(300),
        )?;
        check("ParallelizationFactor", (1..=10).contains(&self.parallelization_factor))?;
        check(
            "MaximumRetryAttempts",
            self.maximum_retry_attempts.is_none_or(|attempts| attempts <= 10_000),
        )?;
        let ages = Duration::from_secs(60)..=Duration::from_secs(604_800);
        check(
            "MaximumRecordAgeInSeconds",
            self.maximum_record_age.is_none_or(|age| ages.contains(&age)),
        )?;
        Ok(self)
    }
}

/// Why settings are refused.
#[derive(Debug, Error)]
pub enum InvalidSettings {
    /// Outside Lambda's own bounds.
    #[error("{name} is outside Lambda's bounds")]
    OutOfBounds {
        /// Which.
        name: &'static str,
    },
    /// A pattern that cannot be read.
    #[error("a pattern of FilterCriteria cannot be read")]
    Filter(#[from] InvalidFilter),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lambdas_bounds_are_kept() {
        let check = |name: &str, settings: Settings| {
            assert_eq!(
                settings.checked().unwrap_err().to_string(),
                format!("{name} is outside Lambda's bounds")
            );
        };
        let default = Settings::default;
        assert!(default().checked().is_ok());
        check(
            "BatchSize",
            Settings {
                batch_size: 0,
                ..default()
            },
        );
        check(
            "BatchSize",
            Settings {
                batch_size: 10_001,
                ..default()
            },
        );
        check(
            "ParallelizationFactor",
            Settings {
                parallelization_factor: 11,
                ..default()
            },
        );
        check(
            "MaximumRetryAttempts",
            Settings {
                maximum_retry_attempts: Some(10_001),
                ..default()
            },
        );
        let age = Some(Duration::from_secs(59));
        check(
            "MaximumRecordAgeInSeconds",
            Settings {
                maximum_record_age: age,
                ..default()
            },
        );
        let window = Duration::from_secs(301);
        check(
            "MaximumBatchingWindowInSeconds",
            Settings {
                batching_window: window,
                ..default()
            },
        );
    }
}
