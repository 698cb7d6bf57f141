//! From what is asked to what each part of the system does a second. No clock, no table, no prices.

use super::{
    figures::{
        BASE_MEMORY_MB, DAY_SECONDS, ENVELOPE_BYTES, EVENT_COPIES, GB, INVOCATION_LOG_BYTES, INVOCATION_MS,
        KB_CPU_MICROS, MAPPING_CONCURRENCY, MARKER_BYTES, MB, MONTH_SECONDS, NEW_TABLE_WRITE_UNITS, PARTITION_GB,
        PARTITION_WRITE_UNITS, PAYLOAD_BYTES, POLL_BYTES, POLL_RECORDS, POLLS_PER_SECOND, QUEUE_POLLERS,
        QUEUE_REQUEST_BYTES, QUEUE_REQUEST_MESSAGES, ROUNDING_MS, STORAGE_OVERHEAD_BYTES, STREAM_CONCURRENCY,
        STREAM_CPU_MICROS, UPDATE_LOG_BYTES, VCPU_MEMORY_MB, WRITER_CONCURRENCY, WRITER_CPU_MICROS,
    },
    units::{Units, Writing},
};

/// What is asked.
#[derive(Debug, Clone, Copy)]
pub(super) struct Inputs {
    pub(super) updates_per_second: f64,
    pub(super) entities: u64,
    /// Bytes of a version item.
    pub(super) item_bytes: u64,
    pub(super) writing: Writing,
    /// The part of the updates that the hottest entity gets.
    pub(super) hottest_share: f64,
    /// How many days of history are kept.
    pub(super) retention_days: f64,
    /// How many days of markers, 0 without a ledger.
    pub(super) ledger_days: f64,
    pub(super) batch_size: f64,
    pub(super) batching_window: f64,
    pub(super) parallelization_factor: f64,
    pub(super) queue_batch_size: f64,
    pub(super) queue_concurrency: f64,
    pub(super) memory_mb: f64,
    pub(super) latency_ms: f64,
}

/// What a function does.
#[derive(Debug, Clone, Copy)]
pub(super) struct Function {
    /// Records or messages of an invocation.
    pub(super) batch: f64,
    pub(super) invocations: f64,
    pub(super) duration_ms: f64,
    /// Invocations at once, on average.
    pub(super) concurrency: f64,
    /// The most of them that the settings allow.
    pub(super) most_concurrency: f64,
    /// What it can work off a second at most, with full batches.
    pub(super) capacity: f64,
    pub(super) memory_needed_mb: f64,
    /// Billed, a second.
    pub(super) gb_seconds: f64,
}

/// What each part does, a second where nothing else is said.
#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    pub(super) units: Units,
    pub(super) write_units: f64,
    pub(super) read_units: f64,
    pub(super) partitions: f64,
    pub(super) storage_gb: f64,
    pub(super) storage_growth_gb: f64,
    pub(super) hottest_updates: f64,
    pub(super) hottest_write_units: f64,
    pub(super) hottest_most_updates: f64,
    pub(super) stream_records: f64,
    pub(super) stream_mb: f64,
    pub(super) stream: Function,
    /// What one lane of one shard works off at most: all records of an entity take the same.
    pub(super) lane_capacity: f64,
    pub(super) writer: Function,
    pub(super) queue_requests: f64,
    pub(super) messages_in_flight: f64,
    pub(super) queues: f64,
    pub(super) log_gb: f64,
}

impl Load {
    pub(super) fn of(inputs: &Inputs) -> Self {
        let rate = inputs.updates_per_second;
        let units = Units::of(inputs.item_bytes, inputs.writing);
        let write_units = rate * units.writes();
        let storage = Storage::of(inputs, &units);
        let partitions = (NEW_TABLE_WRITE_UNITS / PARTITION_WRITE_UNITS)
            .max((write_units / PARTITION_WRITE_UNITS).ceil())
            .max((storage.gb / PARTITION_GB).ceil());
        let shard = Shard::of(inputs, &units);
        let (stream, lane_capacity) = stream(inputs, partitions, &shard);
        let writer = writer(inputs, &units);
        let log_bytes = rate * UPDATE_LOG_BYTES + (writer.invocations + stream.invocations) * INVOCATION_LOG_BYTES;
        Self {
            units,
            write_units,
            read_units: rate * units.reads,
            partitions,
            storage_gb: storage.gb,
            storage_growth_gb: storage.growth_gb,
            hottest_updates: rate * inputs.hottest_share,
            hottest_write_units: write_units * inputs.hottest_share,
            hottest_most_updates: PARTITION_WRITE_UNITS / units.writes(),
            stream_records: rate * shard.records,
            stream_mb: rate * shard.bytes / MB,
            stream,
            lane_capacity,
            writer,
            queue_requests: rate * queue_requests(inputs, writer.batch),
            messages_in_flight: rate * writer.duration_ms / 1_000.0,
            queues: (writer.concurrency / MAPPING_CONCURRENCY).ceil().max(1.0),
            log_gb: log_bytes * MONTH_SECONDS / GB,
        }
    }
}

struct Storage {
    gb: f64,
    growth_gb: f64,
}

impl Storage {
    fn of(inputs: &Inputs, units: &Units) -> Self {
        let stored = |bytes: u64| bytes.saturating_add(STORAGE_OVERHEAD_BYTES) as f64;
        let version = inputs.updates_per_second * stored(inputs.item_bytes);
        let marker = inputs.updates_per_second * stored(MARKER_BYTES);
        let heads = inputs.entities as f64 * stored(units.latest_bytes);
        let days = inputs.retention_days * version + inputs.ledger_days * marker;
        Self {
            gb: (heads + days * DAY_SECONDS) / GB,
            growth_gb: version * MONTH_SECONDS / GB,
        }
    }
}

/// What an update puts into the stream. Every item of the table is in it; Lambda leaves out what is no latest item.
struct Shard {
    records: f64,
    bytes: f64,
}

impl Shard {
    fn of(inputs: &Inputs, units: &Units) -> Self {
        let version = inputs.item_bytes as f64;
        let mut shard = Self {
            records: 2.0,
            bytes: units.latest_bytes as f64 + version,
        };
        // Whatever expires is a record once more, of its keys.
        if units.marker > 0.0 {
            shard.records += 2.0;
            shard.bytes += MARKER_BYTES as f64;
        }
        if units.prune > 0.0 {
            shard.records += 2.0;
            shard.bytes += version;
        }
        shard
    }

    /// The most latest items of one poll.
    fn poll(&self) -> f64 {
        (POLL_RECORDS.min(POLL_BYTES * self.records / self.bytes) / self.records).max(1.0)
    }
}

fn stream(inputs: &Inputs, shards: f64, shard: &Shard) -> (Function, f64) {
    let lanes = shards * inputs.parallelization_factor;
    let event_bytes = inputs.item_bytes as f64 + ENVELOPE_BYTES;
    let of_polls = if inputs.batching_window > 0.0 {
        f64::INFINITY
    } else {
        shard.poll()
    };
    let most = inputs
        .batch_size
        .min(of_polls)
        .min(PAYLOAD_BYTES / event_bytes)
        .max(1.0);
    let gathered = inputs.updates_per_second * (inputs.batching_window + 1.0 / POLLS_PER_SECOND) / lanes;
    let cpu_ms = cpu_ms(STREAM_CPU_MICROS, inputs);
    let duration =
        |batch: f64| INVOCATION_MS + (batch / STREAM_CONCURRENCY).max(1.0) * inputs.latency_ms + batch * cpu_ms;
    let function = function(inputs, gathered.clamp(1.0, most), most, lanes, event_bytes, &duration);
    (function, function.capacity / lanes)
}

fn writer(inputs: &Inputs, units: &Units) -> Function {
    let event_bytes = inputs.item_bytes as f64 + ENVELOPE_BYTES;
    let most = inputs.queue_batch_size.min(PAYLOAD_BYTES / event_bytes).max(1.0);
    let gathered = inputs.updates_per_second / POLLS_PER_SECOND / QUEUE_POLLERS;
    let cpu_ms = cpu_ms(WRITER_CPU_MICROS, inputs) * units.requests;
    let duration = |batch: f64| {
        // Updates of one entity are worked off one after the other.
        let waves = (batch / WRITER_CONCURRENCY).max(batch * inputs.hottest_share).max(1.0);
        INVOCATION_MS + waves * units.latencies * inputs.latency_ms + batch * cpu_ms
    };
    function(
        inputs,
        gathered.clamp(1.0, most),
        most,
        inputs.queue_concurrency,
        event_bytes,
        &duration,
    )
}

fn function(
    inputs: &Inputs,
    batch: f64,
    most: f64,
    most_concurrency: f64,
    event_bytes: f64,
    duration: &dyn Fn(f64) -> f64,
) -> Function {
    let invocations = inputs.updates_per_second / batch;
    let duration_ms = duration(batch);
    Function {
        batch,
        invocations,
        duration_ms,
        concurrency: invocations * duration_ms / 1_000.0,
        most_concurrency,
        capacity: most_concurrency * most * 1_000.0 / duration(most),
        memory_needed_mb: BASE_MEMORY_MB + most * event_bytes * EVENT_COPIES / MB,
        gb_seconds: invocations * (duration_ms + ROUNDING_MS) / 1_000.0 * inputs.memory_mb / 1_024.0,
    }
}

/// For one record or request. No more than one vCPU is counted on.
fn cpu_ms(micros: f64, inputs: &Inputs) -> f64 {
    let further = (inputs.item_bytes as f64 / 1_024.0 - 1.0).max(0.0);
    let vcpu = (inputs.memory_mb / VCPU_MEMORY_MB).min(1.0);
    (micros + further * KB_CPU_MICROS) / vcpu / 1_000.0
}

/// Requests to the queue, an update: one sends it; a batch is received and deleted.
fn queue_requests(inputs: &Inputs, batch: f64) -> f64 {
    let bytes = inputs.item_bytes as f64 + ENVELOPE_BYTES;
    let sent = (bytes / QUEUE_REQUEST_BYTES).ceil();
    let received = (1.0 / batch.min(QUEUE_REQUEST_MESSAGES)).max(bytes / QUEUE_REQUEST_BYTES);
    let deleted = 1.0 / batch.min(QUEUE_REQUEST_MESSAGES);
    sent + received + deleted
}
