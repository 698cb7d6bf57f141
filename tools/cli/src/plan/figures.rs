//! Constants of the calculation, grouped by their source: code, template, AWS documentation, measurement or assumption.

use shared::domain::size;

use super::curve::Duration;

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
/// Payload that is billed as one request to a queue, in bytes.
pub(super) const QUEUE_REQUEST_BYTES: f64 = 65_536.0;
/// Memory size at which a function has one full vCPU, in MB.
pub(super) const VCPU_MEMORY_MB: f64 = 1_769.0;
/// Average time that is billed in addition, because AWS rounds up to whole milliseconds.
pub(super) const ROUNDING_MS: f64 = 0.5;
/// A month of 730 hours, as in the AWS Pricing Calculator.
pub(super) const MONTH_SECONDS: f64 = 730.0 * 3_600.0;
pub(super) const DAY_SECONDS: f64 = 86_400.0;
pub(super) const GB: f64 = 1_073_741_824.0;

// ---- measurement: the benchmark "memory size", mean durations in milliseconds

/// stream-fn, with records of up to 1 KB: batches of 1 and of 1,000, which wait for five rounds of requests.
pub(super) const STREAM_CURVE: [Duration; 5] = [
    Duration::measured(128.0, (1.0, 1.0, 9.808), (1000.0, 5.0, 440.0)),
    Duration::measured(256.0, (1.0, 1.0, 7.047), (1000.0, 5.0, 197.1)),
    Duration::measured(512.0, (1.0, 1.0, 7.104), (1000.0, 5.0, 88.98)),
    Duration::measured(1024.0, (1.0, 1.0, 6.944), (1000.0, 5.0, 47.8)),
    Duration::measured(VCPU_MEMORY_MB, (1.0, 1.0, 7.081), (1000.0, 5.0, 47.23)),
];
/// writer-fn, with updates of up to 1 KB: direct invocations, and SQS batches of 10.
pub(super) const WRITER_CURVE: [Duration; 5] = [
    Duration::measured(128.0, (1.0, 1.0, 6.963), (10.0, 1.0, 31.58)),
    Duration::measured(256.0, (1.0, 1.0, 6.851), (10.0, 1.0, 11.12)),
    Duration::measured(512.0, (1.0, 1.0, 6.781), (10.0, 1.0, 7.982)),
    Duration::measured(1024.0, (1.0, 1.0, 6.794), (10.0, 1.0, 7.992)),
    Duration::measured(VCPU_MEMORY_MB, (1.0, 1.0, 6.775), (10.0, 1.0, 7.886)),
];

// ---- measurement: the benchmark "large items", of items with many attributes, from 1 to 390 KB

/// CPU time of stream-fn for each KB of a record after the first, in microseconds.
pub(super) const STREAM_KB_MICROS: f64 = 42.0;
/// CPU time of writer-fn for each KB of an update after the first, in microseconds.
pub(super) const WRITER_KB_MICROS: f64 = 75.0;

// ---- assumption

/// Latency of a request to DynamoDB, in milliseconds.
pub(super) const LATENCY_MS: f64 = 5.0;
/// Attributes of a version item, each of which takes a byte more in the map of a history table.
pub(super) const IMAGE_ATTRIBUTES: u64 = 10;
/// Latency of a transaction, in latencies of another request: it has two phases.
pub(super) const TRANSACTION_LATENCIES: f64 = 2.0;
/// JSON overhead of a record or of a message, in bytes.
pub(super) const ENVELOPE_BYTES: f64 = 800.0;
/// Size of writer-fn's log line of an update, and of its request ID in stream-fn's log line.
pub(super) const UPDATE_LOG_BYTES: f64 = 430.0;
/// Size of the log lines of an invocation: Lambda's, the function's, and its metrics.
pub(super) const INVOCATION_LOG_BYTES: f64 = 1400.0;
