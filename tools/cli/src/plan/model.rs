//! Load on each part of the system: capacity, partitions, storage, invocations, requests to the queue, and logs.
//!
//! The formulas are in `docs/scaling.md`.

use std::ops::RangeInclusive;

use clap::builder::TypedValueParser;

use super::{
    curve::Duration,
    figures::{
        BASE_MEMORY_MB, DAY_SECONDS, ENVELOPE_BYTES, EVENT_COPIES, GB, INVOCATION_LOG_BYTES, MAPPING_CONCURRENCY,
        MARKER_BYTES, MB, MONTH_SECONDS, NEW_TABLE_WRITE_UNITS, PARTITION_GB, PARTITION_WRITE_UNITS, PAYLOAD_BYTES,
        POLL_BYTES, POLL_RECORDS, POLLS_PER_SECOND, QUEUE_POLLERS, QUEUE_REQUEST_BYTES, QUEUE_REQUEST_MESSAGES,
        RETRIES, RETRY_DELAYS_MS, ROUNDING_MS, STORAGE_OVERHEAD_BYTES, STREAM_CONCURRENCY, STREAM_CURVE,
        STREAM_KB_MICROS, UPDATE_LOG_BYTES, VCPU_MEMORY_MB, VISIBILITY_SECONDS, WRITER_CONCURRENCY, WRITER_CURVE,
        WRITER_KB_MICROS,
    },
    units::{HistoryTable, Units, Writing},
    zipf,
};

/// The functions' instruction set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Architecture {
    #[value(name = "arm64")]
    Arm64,
    #[value(name = "x86_64")]
    X86,
}

/// Settings of the stack.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(super) struct Settings {
    /// Maximum number of records in an invocation of stream-fn: `BatchSize`
    #[arg(long, value_name = "N", default_value_t = 100.0, value_parser = whole(1..=1_000))]
    pub(super) batch_size: f64,
    /// Seconds that the mapping of stream-fn waits for a larger batch: `MaximumBatchingWindowInSeconds`
    #[arg(long, value_name = "SECONDS", default_value_t = 0.0, value_parser = whole(0..=300))]
    pub(super) batching_window: f64,
    /// Concurrent invocations of stream-fn for each shard: `ParallelizationFactor`
    #[arg(long, value_name = "N", default_value_t = 2.0, value_parser = whole(1..=10))]
    pub(super) parallelization_factor: f64,
    /// Maximum number of messages in an invocation of writer-fn: `BatchSize` of the queue's mapping
    #[arg(long, value_name = "N", default_value_t = 10.0, value_parser = whole(1..=10_000))]
    pub(super) queue_batch_size: f64,
    /// Maximum number of concurrent invocations of writer-fn: `MaximumConcurrency`
    #[arg(long, value_name = "N", default_value_t = 20.0, value_parser = whole(2..=1_000))]
    pub(super) queue_concurrency: f64,
    /// Memory of each function, in MB: `MemorySize`
    #[arg(long, value_name = "MB", default_value_t = 512.0, value_parser = whole(128..=10_240))]
    pub(super) memory: f64,
    /// Instruction set of the functions
    #[arg(long, value_enum, default_value_t = Architecture::Arm64)]
    pub(super) architecture: Architecture,
    /// Latency of a request to DynamoDB, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 5.0, value_parser = |text: &str| within(text, 0.01, 60_000.0))]
    pub(super) latency_ms: f64,
}

/// Table class, which determines the prices of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum TableClass {
    Standard,
    InfrequentAccess,
}

fn whole(range: RangeInclusive<i64>) -> impl TypedValueParser<Value = f64> {
    clap::value_parser!(u32).range(range).map(f64::from)
}

/// Parses a number within bounds. NaN is not.
pub(super) fn within(text: &str, min: f64, max: f64) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if (min..=max).contains(&number) => Ok(number),
        _ => Err(format!("not a number from {min} to {max}")),
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Inputs {
    pub(super) updates_per_second: f64,
    pub(super) entities: u64,
    pub(super) item_bytes: u64,
    pub(super) writing: Writing,
    /// Table class of the history table.
    pub(super) history_class: TableClass,
    /// Updates of the hottest entity, as a share of all updates.
    pub(super) hottest_share: f64,
    /// Exponent of the Zipf distribution of the updates, `None` if only the share of the hottest entity is known.
    pub(super) zipf: Option<f64>,
    /// Partitions of each table, `None` for the minimum.
    pub(super) partitions: Option<f64>,
    pub(super) retention_days: f64,
    /// Days that ledger items are stored, 0 without a ledger.
    pub(super) ledger_days: f64,
    pub(super) settings: Settings,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Function {
    /// CPU time of a record or a request, with the function's `MemorySize`.
    pub(super) cpu_ms: f64,
    /// Part of each invocation, in milliseconds.
    pub(super) invocation_ms: f64,
    /// Average number of records or messages of an invocation.
    pub(super) batch: f64,
    /// Per second.
    pub(super) invocations: f64,
    pub(super) duration_ms: f64,
    /// Average number of concurrent invocations.
    pub(super) concurrency: f64,
    /// Maximum of concurrent invocations that the settings allow.
    pub(super) max_concurrency: f64,
    /// Maximum number of records or messages per second, in full batches.
    pub(super) capacity: f64,
    pub(super) memory_needed_mb: f64,
    /// Billed, per second.
    pub(super) gb_seconds: f64,
}

/// Load on one of two tables, per second unless the name states another unit.
#[derive(Debug, Clone, Copy)]
pub(super) struct TableLoad {
    pub(super) write_units: f64,
    pub(super) partitions: f64,
    pub(super) storage_gb: f64,
    /// Growth in a month.
    pub(super) storage_growth_gb: f64,
}

/// Load of all parts, per second unless the name states another unit.
#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    pub(super) units: Units,
    /// Table of latest items.
    pub(super) table: TableLoad,
    /// Table of history, `None` if it is the same.
    pub(super) history: Option<TableLoad>,
    pub(super) read_units: f64,
    pub(super) hottest_updates: f64,
    /// In the partition that gets more of them.
    pub(super) hottest_write_units: f64,
    /// Maximum for one entity.
    pub(super) max_entity_updates: f64,
    /// Updates of one entity above which messages fail.
    pub(super) max_accepted: f64,
    pub(super) stream_records: f64,
    pub(super) stream_mb: f64,
    pub(super) stream: Function,
    /// Maximum records of one lane of a shard. All records of an entity are in the same lane.
    pub(super) lane_capacity: f64,
    pub(super) writer: Function,
    pub(super) queue_requests: f64,
    pub(super) messages_in_flight: f64,
    pub(super) queues: f64,
    /// In a month.
    pub(super) log_gb: f64,
}

impl Load {
    pub(super) fn of(inputs: &Inputs) -> Self {
        let rate = inputs.updates_per_second;
        let units = Units::of(inputs.item_bytes, inputs.writing);
        let stored = |bytes: u64| bytes.saturating_add(STORAGE_OVERHEAD_BYTES) as f64;
        let versions_per_second = rate * stored(units.version_bytes);
        let markers = inputs.ledger_days * rate * stored(MARKER_BYTES) * DAY_SECONDS;
        let latest_items = inputs.entities as f64 * stored(units.latest_bytes);
        let table_load = |write_units: f64, bytes: f64, growth: f64| {
            let load = TableLoad::of(write_units, bytes, growth);
            TableLoad {
                partitions: inputs.partitions.unwrap_or(load.partitions),
                ..load
            }
        };
        let mut table = table_load(rate * units.latest_writes(), latest_items + markers, 0.0);
        let versions = inputs.retention_days * versions_per_second * DAY_SECONDS;
        let history = match units.history {
            HistoryTable::Same => {
                let bytes = latest_items + markers + versions;
                table = table_load(rate * units.latest_writes(), bytes, versions_per_second);
                None
            }
            HistoryTable::Own => {
                let write_units = rate * units.history_writes();
                Some(table_load(write_units, versions, versions_per_second))
            }
        };
        let (records, bytes) = stream_records(inputs, &units);
        // Maximum number of latest items in a poll, which also returns the other records.
        let poll = (POLL_RECORDS.min(POLL_BYTES * records / bytes) / records).max(1.0);
        let (stream, lane_capacity) = stream(inputs, table.partitions, poll);
        let max_accepted = PARTITION_WRITE_UNITS / units.writer_writes();
        let failed = not_accepted(inputs, max_accepted);
        let writer = writer(inputs, &units, failed / rate);
        let log_bytes = rate * UPDATE_LOG_BYTES + (writer.invocations + stream.invocations) * INVOCATION_LOG_BYTES;
        Self {
            units,
            table,
            history,
            read_units: rate * units.reads,
            hottest_updates: rate * inputs.hottest_share,
            hottest_write_units: rate * units.partition_writes() * inputs.hottest_share,
            max_entity_updates: PARTITION_WRITE_UNITS / units.partition_writes(),
            max_accepted,
            stream_records: rate * records,
            stream_mb: rate * bytes / MB,
            stream,
            lane_capacity,
            writer,
            queue_requests: rate * queue_requests(inputs, writer.batch),
            messages_in_flight: rate * writer.duration_ms / 1_000.0 + failed * VISIBILITY_SECONDS,
            queues: (writer.concurrency / MAPPING_CONCURRENCY).ceil().max(1.0),
            log_gb: log_bytes * MONTH_SECONDS / GB,
        }
    }
}

impl TableLoad {
    fn of(write_units: f64, bytes: f64, growth_bytes_per_second: f64) -> Self {
        let storage_gb = bytes / GB;
        Self {
            write_units,
            partitions: (NEW_TABLE_WRITE_UNITS / PARTITION_WRITE_UNITS)
                .max((write_units / PARTITION_WRITE_UNITS).ceil())
                .max((storage_gb / PARTITION_GB).ceil()),
            storage_gb,
            storage_growth_gb: growth_bytes_per_second * MONTH_SECONDS / GB,
        }
    }
}

/// Returns the updates per second that the partitions of their entities do not accept. Without a Zipf distribution, only the hottest
/// entity is known.
fn not_accepted(inputs: &Inputs, max: f64) -> f64 {
    let hottest = inputs.updates_per_second * inputs.hottest_share;
    match inputs.zipf {
        _ if hottest <= max => 0.0,
        None => hottest - max,
        Some(exponent) => zipf::excess(hottest, inputs.entities, exponent, max),
    }
}

/// Returns the number and the bytes of the stream records of an update. The stream contains every item of the table; the event source mapping
/// passes only latest items to stream-fn. A history table has no stream.
fn stream_records(inputs: &Inputs, units: &Units) -> (f64, f64) {
    let (mut records, mut bytes) = (1.0, units.latest_bytes as f64);
    let version = inputs.item_bytes as f64;
    let prune = match units.history {
        HistoryTable::Same => {
            records += 1.0;
            bytes += version;
            units.prune
        }
        HistoryTable::Own => 0.0,
    };
    // An item that expires has two records: it is created or marked, and deleted. The second contains only its keys.
    for (units, item) in [(units.marker, MARKER_BYTES as f64), (prune, version)] {
        if units > 0.0 {
            records += 2.0;
            bytes += item;
        }
    }
    (records, bytes)
}

fn stream(inputs: &Inputs, shards: f64, poll: f64) -> (Function, f64) {
    let settings = &inputs.settings;
    let lanes = shards * settings.parallelization_factor;
    // With a window, the mapping combines several polls.
    let poll = if settings.batching_window > 0.0 {
        f64::INFINITY
    } else {
        poll
    };
    let lane_rate = inputs.updates_per_second / lanes;
    // A window begins with the first record.
    let gathered = received(lane_rate / POLLS_PER_SECOND) + lane_rate * settings.batching_window;
    let measured = Duration::of(&STREAM_CURVE, settings.memory);
    let cpu_ms = item_ms(measured, STREAM_KB_MICROS, inputs);
    let function = function(
        inputs,
        (measured.invocation_ms, cpu_ms),
        gathered,
        settings.batch_size.min(poll),
        lanes,
        |batch| (batch / STREAM_CONCURRENCY).max(1.0) * settings.latency_ms + batch * cpu_ms,
    );
    (function, function.capacity / lanes)
}

/// `failed` is the share of messages that fail, because DynamoDB throttles all attempts of their requests.
fn writer(inputs: &Inputs, units: &Units, failed: f64) -> Function {
    let settings = &inputs.settings;
    let gathered = received(inputs.updates_per_second / POLLS_PER_SECOND / QUEUE_POLLERS);
    let measured = Duration::of(&WRITER_CURVE, settings.memory);
    let request_ms = item_ms(measured, WRITER_KB_MICROS, inputs);
    let cpu_ms = request_ms * units.requests;
    function(
        inputs,
        (measured.invocation_ms, request_ms),
        gathered,
        settings.queue_batch_size,
        settings.queue_concurrency,
        |batch| {
            // Updates of one entity are written one after the other.
            let sequential = (batch / WRITER_CONCURRENCY).max(batch * inputs.hottest_share).max(1.0);
            // Of the updates at the same time, one that is rejected delays all.
            let rejected = 1.0 - (1.0 - units.rejections).powf(batch / sequential);
            let latencies = units.latencies - units.rejections + rejected;
            // The batch waits for the retries of its throttled requests.
            let throttled = 1.0 - (1.0 - failed).powf(batch);
            let retries = RETRY_DELAYS_MS + RETRIES * units.latencies * settings.latency_ms;
            sequential * latencies * settings.latency_ms + batch * cpu_ms + throttled * retries
        },
    )
}

/// Returns the average number of records that a poll receives if it receives any, and the average of all polls is `mean`. Records arrive
/// at random times, so some polls receive none.
fn received(mean: f64) -> f64 {
    let received = mean / -(-mean).exp_m1();
    if received.is_finite() { received.max(1.0) } else { 1.0 }
}

/// The pair is the time of each invocation and of each item. `gathered` is the number of records or messages that are waiting when an invocation starts.
fn function(
    inputs: &Inputs,
    (invocation_ms, cpu_ms): (f64, f64),
    gathered: f64,
    max_batch: f64,
    max_concurrency: f64,
    work_ms: impl Fn(f64) -> f64,
) -> Function {
    let event_bytes = inputs.item_bytes as f64 + ENVELOPE_BYTES;
    let max_batch = max_batch.min(PAYLOAD_BYTES / event_bytes).max(1.0);
    let batch = gathered.clamp(1.0, max_batch);
    let duration_ms = invocation_ms + work_ms(batch);
    let invocations = inputs.updates_per_second / batch;
    Function {
        cpu_ms,
        invocation_ms,
        batch,
        invocations,
        duration_ms,
        concurrency: invocations * duration_ms / 1_000.0,
        max_concurrency,
        capacity: max_concurrency * max_batch * 1_000.0 / (invocation_ms + work_ms(max_batch)),
        memory_needed_mb: BASE_MEMORY_MB + max_batch * event_bytes * EVENT_COPIES / MB,
        gb_seconds: invocations * (duration_ms + ROUNDING_MS) / 1_000.0 * inputs.settings.memory / 1_024.0,
    }
}

/// Returns the time that the CPU share needs for one record or request. `kb_micros` is the CPU time of each KB after the first.
fn item_ms(measured: Duration, kb_micros: f64, inputs: &Inputs) -> f64 {
    let further_kb = (inputs.item_bytes as f64 / 1_024.0 - 1.0).max(0.0);
    let vcpu = (inputs.settings.memory / VCPU_MEMORY_MB).min(1.0);
    (measured.item_micros + further_kb * kb_micros / vcpu) / 1_000.0
}

/// Returns the number of requests to the queue for an update: to send it, to receive a batch, and to delete the batch.
fn queue_requests(inputs: &Inputs, batch: f64) -> f64 {
    let size = (inputs.item_bytes as f64 + ENVELOPE_BYTES) / QUEUE_REQUEST_BYTES;
    let deleted = 1.0 / batch.min(QUEUE_REQUEST_MESSAGES);
    size.ceil() + deleted.max(size) + deleted
}
