//! What the arithmetic rests on, by where it comes from: the code, AWS's documents, measurement, or an assumption.

use shared::domain::size;

// ---- the code of the functions and the library

/// The most records of stream-fn under way at once: eight requests of 25.
pub(super) const STREAM_CONCURRENCY: f64 = 200.0;
/// The most lanes of writer-fn under way at once.
pub(super) const WRITER_CONCURRENCY: f64 = 32.0;
/// `Latest` of a latest item: its name, and a number of six digits.
pub(super) const LATEST_BYTES: u64 = 6 + 4;
/// `RecentRequests` without its entries: its name, and what a map takes.
pub(super) const RECENT_BYTES: u64 = 14 + 3;
/// An entry of it: a hash of 11 characters, and a number of six digits.
pub(super) const ENTRY_BYTES: u64 = 1 + 11 + 4;
/// A marker of the ledger: keys of 20 and 44 bytes, the version, the hash of the payload, the time it expires.
pub(super) const MARKER_BYTES: u64 = 22 + 46 + 11 + 50 + 9;
/// What a pruned version gets: `TTL` in epoch seconds.
pub(super) const TTL_BYTES: u64 = 3 + 6;
/// The most bytes of an item.
pub(super) const MAX_ITEM_BYTES: u64 = size::MAX_ITEM_BYTES as u64;
/// What a version item has to leave free.
pub(super) const MARKS_BYTES: u64 = size::MARKS_BYTES as u64;

// ---- AWS's documents

/// Write units a second that one partition takes, and so one item.
pub(super) const PARTITION_WRITE_UNITS: f64 = 1_000.0;
/// What one partition holds, in GB.
pub(super) const PARTITION_GB: f64 = 10.0;
/// Write units a second that a new table on demand takes.
pub(super) const NEW_TABLE_WRITE_UNITS: f64 = 4_000.0;
/// The default quota of a table on demand, in write units a second. AWS raises it when asked.
pub(super) const TABLE_WRITE_UNITS: f64 = 40_000.0;
/// Bytes that each stored item is billed for besides its own.
pub(super) const STORAGE_OVERHEAD_BYTES: u64 = 100;
/// How often Lambda polls a shard, each second.
pub(super) const POLLS_PER_SECOND: f64 = 4.0;
/// The most records of one poll.
pub(super) const POLL_RECORDS: f64 = 1_000.0;
/// The most bytes of one poll.
pub(super) const POLL_BYTES: f64 = 1_048_576.0;
/// The most bytes of one invocation's event.
pub(super) const PAYLOAD_BYTES: f64 = 6_291_456.0;
/// How many pollers a queue's mapping begins with.
pub(super) const QUEUE_POLLERS: f64 = 5.0;
/// What one request to a queue carries for its price, in bytes.
pub(super) const QUEUE_REQUEST_BYTES: f64 = 65_536.0;
/// The most messages of one request to a queue.
pub(super) const QUEUE_REQUEST_MESSAGES: f64 = 10.0;
/// The most messages of a standard queue that are received and not deleted.
pub(super) const QUEUE_IN_FLIGHT: f64 = 120_000.0;
/// The most invocations at once that one mapping of a queue can be allowed.
pub(super) const MAPPING_CONCURRENCY: f64 = 1_000.0;
/// The default quota of invocations at once, of all functions of an account. AWS raises it when asked.
pub(super) const ACCOUNT_CONCURRENCY: f64 = 1_000.0;
/// The memory that comes with one whole vCPU, in MB.
pub(super) const VCPU_MEMORY_MB: f64 = 1_769.0;
/// On average, by rounding up to whole milliseconds, billed besides.
pub(super) const ROUNDING_MS: f64 = 0.5;
/// Seconds of a month of 730 hours, as AWS's calculator has it.
pub(super) const MONTH_SECONDS: f64 = 730.0 * 3_600.0;
/// Hours of it.
pub(super) const MONTH_HOURS: f64 = 730.0;
/// Seconds of a day.
pub(super) const DAY_SECONDS: f64 = 86_400.0;
/// Bytes of a GB.
pub(super) const GB: f64 = 1_073_741_824.0;
/// Bytes of a MB.
pub(super) const MB: f64 = 1_048_576.0;

// ---- CPU at one whole vCPU, as the bench's comparisons "stream CPU" and "writer" measure it

/// What stream-fn takes for a record of up to 1 KB, in microseconds.
pub(super) const STREAM_CPU_MICROS: f64 = 31.0;
/// What writer-fn takes for a request of up to 1 KB, in microseconds.
pub(super) const WRITER_CPU_MICROS: f64 = 217.0;

// ---- assumed

/// What each further KB takes of either, in microseconds.
pub(super) const KB_CPU_MICROS: f64 = 10.0;
/// What an invocation takes besides, in milliseconds.
pub(super) const INVOCATION_MS: f64 = 1.0;
/// How many times as long as another request a transaction takes: it has two phases.
pub(super) const TRANSACTION_LATENCIES: f64 = 2.0;
/// What JSON adds to the image of a record, or to the update of a message, in bytes.
pub(super) const ENVELOPE_BYTES: f64 = 800.0;
/// How much of an event is in memory, in events.
pub(super) const EVENT_COPIES: f64 = 4.0;
/// What a function needs without any event, in MB.
pub(super) const BASE_MEMORY_MB: f64 = 30.0;
/// Bytes of writer-fn's log line of one update, and of its id in stream-fn's.
pub(super) const UPDATE_LOG_BYTES: f64 = 430.0;
/// Bytes of the log lines of one invocation: Lambda's own, the function's, and its metrics.
pub(super) const INVOCATION_LOG_BYTES: f64 = 1400.0;
