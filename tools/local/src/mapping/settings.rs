//! Settings of a mapping, with Lambda's names. The template's reader checks Lambda's bounds.
//! See <https://docs.aws.amazon.com/lambda/latest/api/API_CreateEventSourceMapping.html>.

use std::time::Duration;

use super::{filter::Filters, position::Position};

#[derive(Debug, Clone)]
pub struct Settings {
    /// Maximum number of records of one invocation, default 100.
    pub batch_size: usize,
    /// Maximum time to gather a batch, default 0.
    pub batching_window: Duration,
    /// Number of batches of one shard in flight at once, default 1.
    pub parallelization_factor: usize,
    pub bisect_on_function_error: bool,
    /// `true` if the response of the function names the records that failed.
    pub report_batch_item_failures: bool,
    /// Maximum number of retries of a failed batch. `None` is unlimited.
    pub maximum_retry_attempts: Option<u32>,
    /// Maximum age of a delivered record. `None` is unlimited.
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
