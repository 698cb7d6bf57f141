//! Constants of the calculation, grouped by their source: code, template, AWS documentation, measurement or assumption.

use shared::domain::size;

// ---- the code of the functions and the library

/// `Latest` and `RecordedVersion` of a latest item: their names, and two numbers of six digits.
pub(super) const LATEST_BYTES: u64 = 6 + 4 + 15 + 4;
/// `RecentRequests` without its entries, `RequestsSince` and `RequestsDropped`.
pub(super) const RECENT_BYTES: u64 = 14 + 3 + 13 + 8 + 15 + 4;
/// An entry of `RecentRequests`: a hash of 7 characters, and a number of six digits with ten decimals.
pub(super) const ENTRY_BYTES: u64 = 1 + 7 + 9;
/// A ledger item: keys of 20 and 44 bytes, the version, the hash of the payload, the expiry time.
pub(super) const MARKER_BYTES: u64 = 22 + 46 + 11 + 50 + 9;
/// The map `Image` of a version in a history table: its name and the map.
pub(super) const IMAGE_BYTES: u64 = 5 + 3;
/// `TTL` of a pruned version, in epoch seconds.
pub(super) const TTL_BYTES: u64 = 3 + 6;
pub(super) const MAX_ITEM_BYTES: u64 = size::MAX_ITEM_BYTES as u64;

// ---- `template.yaml`

/// Maximum number of records in an invocation of stream-fn: `BatchSize`.
pub(super) const BATCH_SIZE: f64 = 100.0;
/// Concurrent invocations of stream-fn for each shard: `ParallelizationFactor`.
pub(super) const PARALLELIZATION: f64 = 2.0;
/// Maximum number of messages in an invocation of writer-fn: `BatchSize` of the queue's mapping.
pub(super) const QUEUE_BATCH_SIZE: f64 = 10.0;
/// Memory of each function: `MemorySize`.
pub(super) const MEMORY_MB: f64 = 512.0;
/// Metrics that the alarms of a stack evaluate: of template.yaml, of tools/attach/template.yaml, and of tools/monitoring/template.yaml.
pub(super) const ALARMS: f64 = 6.0;
pub(super) const ATTACHED_ALARMS: f64 = 4.0;
pub(super) const MONITORING_ALARMS: f64 = 12.0;

// ---- AWS documentation

/// Maximum write units per second of a partition, and therefore of an item.
pub(super) const PARTITION_WRITE_UNITS: f64 = 1_000.0;
/// Maximum size of a partition, in GB.
pub(super) const PARTITION_GB: f64 = 10.0;
/// Partitions of a new on-demand table, which accepts 4,000 write units per second.
pub(super) const MIN_PARTITIONS: f64 = 4.0;
/// Bytes that are billed for each stored item in addition to its size.
pub(super) const STORAGE_OVERHEAD_BYTES: u64 = 100;
/// Polls of a shard by Lambda per second.
pub(super) const POLLS_PER_SECOND: f64 = 4.0;
/// Initial number of pollers of a queue's mapping.
pub(super) const QUEUE_POLLERS: f64 = 5.0;
/// Time for which a poll of a queue waits for messages, in seconds.
pub(super) const POLL_SECONDS: f64 = 20.0;
/// Payload that is billed as one request to a queue, in bytes.
pub(super) const QUEUE_REQUEST_BYTES: f64 = 65_536.0;
/// Memory size at which a function has one full vCPU, in MB.
const VCPU_MEMORY_MB: f64 = 1_769.0;
/// Average time that is billed in addition, because AWS rounds up to whole milliseconds.
pub(super) const ROUNDING_MS: f64 = 0.5;
/// A month of 730 hours, as in the AWS Pricing Calculator.
pub(super) const MONTH_SECONDS: f64 = 730.0 * 3_600.0;
pub(super) const DAY_SECONDS: f64 = 86_400.0;
pub(super) const GB: f64 = 1_073_741_824.0;

// ---- measurement: the benchmark "memory size", with `MEMORY_MB` and requests that take 6.236 ms

/// stream-fn, with records of up to 1 KB: a batch of 1 takes 7.104 ms, and one of 1,000, which waits for five rounds of requests, 88.98 ms.
pub(super) const STREAM: Duration = Duration {
    invocation_ms: 0.811_011,
    item_ms: 0.056_989,
    kb_micros: 42.0,
};
/// writer-fn, with updates of up to 1 KB: a direct invocation takes 6.781 ms, and an SQS batch of 10 takes 7.982 ms.
pub(super) const WRITER: Duration = Duration {
    invocation_ms: 0.411_556,
    item_ms: 0.133_444,
    kb_micros: 75.0,
};

// ---- assumption

/// Latency of a request to DynamoDB, in milliseconds.
pub(super) const LATENCY_MS: f64 = 5.0;
/// Attributes of a version item, each of which takes a byte more in the map of a history table.
pub(super) const IMAGE_ATTRIBUTES: u64 = 10;
/// Latency of a transaction, in latencies of another request: it has two phases.
pub(super) const TRANSACTION_LATENCIES: f64 = 2.0;
/// JSON overhead of a record or of a message, in bytes.
pub(super) const ENVELOPE_BYTES: f64 = 800.0;
/// Counts of the event source mappings of the stream and of the queue (`MetricsConfig`). AWS does not state their price: they are assumed to
/// cost as much as custom metrics.
pub(super) const STREAM_COUNTS: f64 = 6.0;
pub(super) const QUEUE_COUNTS: f64 = 5.0;
/// Custom metrics of both functions that have values.
pub(super) const CUSTOM_METRICS: f64 = 20.0;
/// Size of the values of an update in the lines of metrics: its latency and the lag of its version.
pub(super) const UPDATE_LOG_BYTES: f64 = 15.0;
/// Size of the line of metrics of an invocation, the only one with `LogLevel=WARN`, and of the 26 bytes that CloudWatch adds.
pub(super) const INVOCATION_LOG_BYTES: f64 = 500.0;

/// Duration of the invocations of a function: a part of each invocation, and a part of each record or update. Neither contains the latency
/// of requests.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Duration {
    pub(super) invocation_ms: f64,
    item_ms: f64,
    /// CPU time of each KB of a record or update after the first, as the benchmark "large items" measures it, of items with many
    /// attributes, from 1 to 390 KB.
    kb_micros: f64,
}

impl Duration {
    /// Returns the time that the CPU share needs for one record or request.
    pub(super) fn item_ms(self, item_bytes: u64) -> f64 {
        let further_kb = (item_bytes as f64 / 1_024.0 - 1.0).max(0.0);
        self.item_ms + further_kb * self.kb_micros / 1_000.0 * VCPU_MEMORY_MB / MEMORY_MB
    }
}
