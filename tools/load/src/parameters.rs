//! Load, settings and quotas of a simulated system.

/// One millisecond in the unit of all times, microseconds.
pub const MS: u64 = 1_000;
/// One second in microseconds.
pub const SECOND: u64 = 1_000_000;

/// Change of the rate of updates during the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rate {
    /// The same rate from start to end.
    Steady,
    /// From zero to the full rate, linearly.
    Ramp,
}

/// Parameters of a run. The mode is `stream` with `recent`, the default of the stack.
#[derive(Debug, Clone)]
pub struct Parameters {
    /// Seed of all random numbers.
    pub seed: u64,
    /// Duration of the run in simulated seconds.
    pub seconds: u64,
    /// Updates per second of all entities, as a Poisson process.
    pub updates_per_second: f64,
    /// Change of the rate during the run.
    pub rate: Rate,
    /// Number of entities.
    pub entities: u32,
    /// Exponent of the Zipf distribution of the updates over the entities, 0 for a uniform one.
    pub zipf: f64,
    /// Size of a version item in bytes.
    pub item_bytes: u64,
    /// `IdempotencyWindow`.
    pub window: u64,
    /// Partitions of each table, and shards of the stream.
    pub partitions: u32,
    /// `true` if history has a table of its own.
    pub own_history: bool,

    /// Write units per second of a partition.
    pub partition_write_units: f64,
    /// Write units per second of a table.
    pub table_write_units: f64,
    /// Seconds of unused capacity that a partition keeps.
    pub burst_seconds: f64,
    /// Duration of a request to DynamoDB, in milliseconds.
    pub latency_ms: f64,
    /// Maximum number of attempts for a request: `MaxAttempts`.
    pub max_attempts: u32,

    /// Concurrent invocations of both functions.
    pub account_concurrency: u32,

    /// CPU time of an update in writer-fn with its `MemorySize`, in microseconds.
    pub writer_cpu_micros: f64,
    /// Time of an invocation of writer-fn beside its items and requests, in milliseconds.
    pub writer_invocation_ms: f64,
    /// `BatchSize` of the queue's mapping.
    pub queue_batch_size: usize,
    /// `MaximumConcurrency` of the queue's mapping.
    pub queue_concurrency: u32,
    /// Seconds until the queue delivers a failed message again.
    pub visibility_timeout: u64,
    /// Deliveries of a message before it is moved to the dead-letter queue.
    pub max_receive_count: u8,
    /// Maximum number of messages of the queue that are received and not deleted.
    pub messages_in_flight: usize,

    /// CPU time of a record in stream-fn with its `MemorySize`, in microseconds.
    pub stream_cpu_micros: f64,
    /// Time of an invocation of stream-fn beside its items and requests, in milliseconds.
    pub stream_invocation_ms: f64,
    /// `BatchSize` of the stream's mapping.
    pub batch_size: usize,
    /// `MaximumBatchingWindowInSeconds`.
    pub batching_window: u64,
    /// `ParallelizationFactor`.
    pub parallelization_factor: u32,
    /// `MaximumRetryAttempts`, `None` for no limit.
    pub max_retries: Option<u32>,
    /// `MaximumRecordAgeInSeconds`.
    pub max_record_age: u64,
}

impl Default for Parameters {
    /// Returns a small load on a stack with the default settings and quotas.
    fn default() -> Self {
        Self {
            seed: 1,
            seconds: 20,
            updates_per_second: 1_000.0,
            rate: Rate::Steady,
            entities: 100_000,
            zipf: 0.0,
            item_bytes: 500,
            window: 10,
            partitions: 100,
            own_history: false,
            partition_write_units: 1_000.0,
            table_write_units: 40_000.0,
            burst_seconds: 1.0,
            latency_ms: 5.0,
            max_attempts: 3,
            account_concurrency: 1_000,
            writer_cpu_micros: 3_000.0,
            writer_invocation_ms: 1.0,
            queue_batch_size: 10,
            queue_concurrency: 20,
            visibility_timeout: 180,
            max_receive_count: 5,
            messages_in_flight: 120_000,
            stream_cpu_micros: 430.0,
            stream_invocation_ms: 1.0,
            batch_size: 100,
            batching_window: 0,
            parallelization_factor: 2,
            max_retries: None,
            max_record_age: 43_200,
        }
    }
}

/// Bytes of a message or record beside its item.
const ENVELOPE_BYTES: u64 = 800;
/// Maximum size of the event of an invocation.
const PAYLOAD_BYTES: u64 = 6 << 20;
/// Bytes of `Latest`, `RecordedVersion` and an empty map of recent requests.
const BOOKKEEPING_BYTES: u64 = 86;
/// Bytes of a recent request.
const ENTRY_BYTES: u64 = 17;
/// Bytes that the map of an image adds to a version item of a history table.
const IMAGE_BYTES: u64 = 18;
/// Recent requests above the window at which the map is full.
pub(crate) const SLACK: u8 = 8;

/// Returns one write unit for each KB, rounded up.
#[allow(clippy::cast_precision_loss, reason = "an item has at most 400 KB")]
fn units(bytes: u64) -> f64 {
    bytes.div_ceil(1024).max(1) as f64
}

impl Parameters {
    /// Returns the duration of a run in microseconds.
    pub(crate) fn end(&self) -> u64 {
        self.seconds * SECOND
    }

    /// Returns the write units of the latest item with this number of recent requests above the window.
    pub(crate) fn latest_units(&self, above: u8) -> f64 {
        units(self.latest_bytes(above))
    }

    fn latest_bytes(&self, above: u8) -> u64 {
        self.item_bytes + BOOKKEEPING_BYTES + ENTRY_BYTES * (self.window + u64::from(above))
    }

    /// Returns the write units of a version item.
    pub(crate) fn version_units(&self) -> f64 {
        units(self.item_bytes + if self.own_history { IMAGE_BYTES } else { 0 })
    }

    /// Returns the maximum number of records or messages of an invocation.
    pub(crate) fn batch(&self, batch_size: usize) -> usize {
        let payload = PAYLOAD_BYTES / (self.item_bytes + ENVELOPE_BYTES);
        batch_size.min(usize::try_from(payload).unwrap_or(usize::MAX)).max(1)
    }

    /// Returns the maximum number of latest items of a page of the stream, which has 1,000 records or 1 MB. The stream of the
    /// same table contains version items, too.
    pub(crate) fn page(&self) -> usize {
        let (records, versions) = match self.own_history {
            true => (1_000, 0),
            false => (500, self.item_bytes),
        };
        let bytes = (1 << 20) / (self.latest_bytes(SLACK / 2) + versions);
        records.min(usize::try_from(bytes).unwrap_or(usize::MAX)).max(1)
    }
}

/// Converts milliseconds to microseconds.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "durations are positive and below a day"
)]
pub(crate) fn micros(ms: f64) -> u64 {
    (ms * 1_000.0).round() as u64
}
