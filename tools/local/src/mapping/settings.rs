//! Settings of a mapping, with Lambda's names and bounds.
//! See <https://docs.aws.amazon.com/lambda/latest/api/API_CreateEventSourceMapping.html>.

use std::time::Duration;

use thiserror::Error;

use super::{
    filter::{Filters, InvalidFilter},
    position::Position,
};

#[derive(Debug, Clone)]
pub struct Settings {
    /// Maximum number of records of one invocation: 1 to 10,000, default 100.
    pub batch_size: usize,
    /// Maximum time to gather a batch: up to 300 s, default 0.
    pub batching_window: Duration,
    /// Number of batches of one shard in flight at once: 1 to 10, default 1.
    pub parallelization_factor: usize,
    pub bisect_on_function_error: bool,
    /// `true` if the response of the function names the records that failed.
    pub report_batch_item_failures: bool,
    /// Maximum number of retries of a failed batch: 0 to 10,000. `None` is unlimited.
    pub maximum_retry_attempts: Option<u32>,
    /// Maximum age of a delivered record: 60 s to 7 days. `None` is unlimited.
    pub maximum_record_age: Option<Duration>,
    pub filters: Filters,
    /// First position in a stream without a stored position: `TrimHorizon` or `Latest`.
    pub starting_position: Position,
    /// Time from the start of the mapping to its first read, default 0. With `Position::Latest`, records that are put
    /// in this time are not delivered. On AWS it is about a minute (recorded: 51 to 72 s).
    pub startup: Duration,
    /// Time between two lists of the shards, default 10 s. The end of a shard causes a list at once.
    pub list_interval: Duration,
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
            starting_position: Position::TrimHorizon,
            startup: Duration::ZERO,
            list_interval: Duration::from_secs(10),
        }
    }
}

impl Settings {
    /// Checks Lambda's bounds.
    pub fn checked(self) -> Result<Self, InvalidSettings> {
        let ages = Duration::from_secs(60)..=Duration::from_secs(604_800);
        let (attempts, age) = (self.maximum_retry_attempts, self.maximum_record_age);
        let max_window = Duration::from_secs(300);
        for (name, is_within) in [
            ("BatchSize", (1..=10_000).contains(&self.batch_size)),
            ("MaximumBatchingWindowInSeconds", self.batching_window <= max_window),
            ("ParallelizationFactor", (1..=10).contains(&self.parallelization_factor)),
            (
                "MaximumRetryAttempts",
                attempts.is_none_or(|attempts| attempts <= 10_000),
            ),
            ("MaximumRecordAgeInSeconds", age.is_none_or(|age| ages.contains(&age))),
        ] {
            if !is_within {
                return Err(InvalidSettings::OutOfBounds(name));
            }
        }
        Ok(self)
    }
}

#[derive(Debug, Error)]
pub enum InvalidSettings {
    #[error("{0} is outside Lambda's bounds")]
    OutOfBounds(&'static str),
    #[error("a pattern of FilterCriteria cannot be read")]
    Filter(#[from] InvalidFilter),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_outside_lambdas_bounds_are_rejected() {
        type Change = fn(&mut Settings);
        assert!(Settings::default().checked().is_ok());
        let changes: [(&str, Change); 6] = [
            ("BatchSize", |it| it.batch_size = 0),
            ("BatchSize", |it| it.batch_size = 10_001),
            ("ParallelizationFactor", |it| it.parallelization_factor = 11),
            ("MaximumRetryAttempts", |it| it.maximum_retry_attempts = Some(10_001)),
            ("MaximumRecordAgeInSeconds", |it| {
                it.maximum_record_age = Some(Duration::from_secs(59));
            }),
            ("MaximumBatchingWindowInSeconds", |it| {
                it.batching_window = Duration::from_secs(301);
            }),
        ];
        for (name, change) in changes {
            let mut settings = Settings::default();
            change(&mut settings);
            let error = settings.checked().unwrap_err().to_string();
            assert_eq!(error, format!("{name} is outside Lambda's bounds"));
        }
    }
}
