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
/// Size of the values of an update in the lines of metrics: its latency and the lag of its version.
pub(super) const UPDATE_LOG_BYTES: f64 = 15.0;
/// Size of the line of metrics of an invocation, the only one with `LogLevel=WARN`, and of the 26 bytes that CloudWatch adds.
pub(super) const INVOCATION_LOG_BYTES: f64 = 500.0;

// ---- duration of an invocation for each memory size, as measured

/// Latency of the requests while the durations were measured: "ms of a request" of the benchmark "memory size".
const LATENCY_MEASURED_MS: f64 = 6.236;

/// Duration of the invocations of a function with this memory: a part of each invocation, and a part of each record or update. Neither
/// contains the latency of requests.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Duration {
    pub(super) memory_mb: f64,
    pub(super) invocation_ms: f64,
    pub(super) item_micros: f64,
}

impl Duration {
    /// Calculates the parts from the measured durations of two batches, in milliseconds, with the rounds of requests that each batch waits for.
    const fn measured(memory_mb: f64, small: (f64, f64, f64), large: (f64, f64, f64)) -> Self {
        let (small_items, small_rounds, small_ms) = small;
        let (large_items, large_rounds, large_ms) = large;
        let (small_ms, large_ms) = (
            small_ms - small_rounds * LATENCY_MEASURED_MS,
            large_ms - large_rounds * LATENCY_MEASURED_MS,
        );
        let item_ms = (large_ms - small_ms) / (large_items - small_items);
        let invocation_ms = small_ms - small_items * item_ms;
        Self {
            memory_mb,
            invocation_ms: if invocation_ms > 0.0 { invocation_ms } else { 0.0 },
            item_micros: item_ms * 1_000.0,
        }
    }

    /// Returns the time that the CPU share needs for one record or request. `kb_micros` is the CPU time of each KB after the first.
    pub(super) fn item_ms(self, kb_micros: f64, item_bytes: u64) -> f64 {
        let further_kb = (item_bytes as f64 / 1_024.0 - 1.0).max(0.0);
        let vcpu = (self.memory_mb / VCPU_MEMORY_MB).min(1.0);
        (self.item_micros + further_kb * kb_micros / vcpu) / 1_000.0
    }

    /// Returns the duration for a memory size. Between two measured sizes, it is proportional to the CPU share. Above the largest, it does not
    /// change, because the functions use one vCPU.
    pub(super) fn of(curve: &[Self], memory_mb: f64) -> Self {
        let above = curve
            .partition_point(|point| point.memory_mb < memory_mb)
            .min(curve.len() - 1);
        let (below, above) = (curve[above.saturating_sub(1)], curve[above]);
        let share = |memory: f64| 1.0 / memory.clamp(below.memory_mb, above.memory_mb);
        let weight = match below.memory_mb < above.memory_mb {
            true => (share(memory_mb) - share(above.memory_mb)) / (share(below.memory_mb) - share(above.memory_mb)),
            false => 0.0,
        };
        let between = |below: f64, above: f64| above + weight * (below - above);
        Self {
            memory_mb,
            invocation_ms: between(below.invocation_ms, above.invocation_ms),
            item_micros: between(below.item_micros, above.item_micros),
        }
    }
}
