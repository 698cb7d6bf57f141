//! Capacity and requests of one update, and the load of the system in a second: capacity units, storage, invocations, requests to the queue, and logs.

use shared::config::{Idempotency, MARKER_RETENTION, WriteMode};

use super::PlanArgs;
#[allow(clippy::wildcard_imports, reason = "the constants of all formulas")]
use super::figures::*;

/// Capacity and requests of one update, on average.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Units {
    /// Maximum size of the latest item, in bytes.
    pub(super) latest_bytes: u64,
    /// Size of the stored version item, in bytes.
    pub(super) version_bytes: u64,
    /// Write units of the latest item, including rejected requests, and of the ledger's marker.
    pub(super) latest: f64,
    /// Write units of the version item, of stream-fn's rejected put if writer-fn stores the version item, and of pruning.
    pub(super) version: f64,
    pub(super) reads: f64,
    pub(super) requests: f64,
    /// Latency of these requests, in latencies of one request.
    pub(super) latencies: f64,
    /// Share of updates whose first request is rejected and sent again, which is contained in the requests and latencies.
    pub(super) rejections: f64,
}

impl Units {
    pub(super) fn of(args: &PlanArgs) -> Self {
        let bytes = args.item_bytes;
        let image_bytes = IMAGE_BYTES + IMAGE_ATTRIBUTES;
        let version_bytes = if args.has_own_history() {
            bytes + image_bytes
        } else {
            bytes
        };
        let (min, full, map_bytes, marker) = match args.method.idempotency {
            Idempotency::Recent(window) => (window.get(), window.full(), RECENT_BYTES, 0.0),
            Idempotency::Ledger => (0, 0, 0, 2.0 * write_units(MARKER_BYTES)),
        };
        // In a round, the map of recent requests grows from its minimum until it is full, and the request that finds it full is rejected.
        let size = |entries: usize| bytes + LATEST_BYTES + map_bytes + ENTRY_BYTES * entries as u64;
        let round = (min..=full).count() as f64;
        // The first update of a round prunes the map. It costs as much as the item before it, which is larger.
        let pruning = write_units(size(full));
        let growing: f64 = (min + 1..=full).map(|entries| write_units(size(entries))).sum();
        let writes = (growing + pruning) / round;
        // A writer that reads first writes in a transaction, and prunes a full map in its first request.
        let reads_first = marker > 0.0 || args.method.mode == WriteMode::Transaction;
        let (factor, rejections, reads, requests, latencies) = if reads_first {
            let reads = (min..=full).map(|entries| read_units(size(entries))).sum::<f64>() / round;
            (2.0, 0.0, reads, 2.0, 1.0 + TRANSACTION_LATENCIES)
        } else {
            (1.0, 1.0 / round, 0.0, 1.0 + 1.0 / round, 1.0 + 1.0 / round)
        };
        let (stored, inline) = match args.method.mode {
            WriteMode::Stream => (1.0, 0.0),
            WriteMode::Inline => (2.0, 1.0),
            WriteMode::Transaction => (3.0, 0.0),
        };
        let pruned = args.retention_days.map(|_| write_units(version_bytes + TTL_BYTES));
        Self {
            latest_bytes: size(full),
            version_bytes,
            latest: factor * writes + rejections * pruning + marker,
            version: stored * write_units(version_bytes) + pruned.unwrap_or_default(),
            reads,
            requests: requests + inline,
            latencies: latencies + inline,
            rejections,
        }
    }

    /// Returns all write units.
    pub(super) fn writes(&self) -> f64 {
        self.latest + self.version
    }
}

/// Returns one unit for each KB, rounded up.
pub(crate) fn write_units(bytes: u64) -> f64 {
    bytes.div_ceil(1024).max(1) as f64
}

/// Returns one unit of a consistent read for each 4 KB, rounded up.
pub(crate) fn read_units(bytes: u64) -> f64 {
    bytes.div_ceil(4096).max(1) as f64
}

/// Load of one table.
#[derive(Debug, Clone, Copy)]
pub(super) struct Table {
    /// Per second.
    pub(super) write_units: f64,
    pub(super) storage_gb: f64,
    /// In a month.
    pub(super) growth_gb: f64,
}

/// Returns the minimum number of partitions of a table, which are the shards of its stream.
pub(super) fn partitions(write_units: f64, storage_gb: f64) -> f64 {
    MIN_PARTITIONS
        .max((write_units / PARTITION_WRITE_UNITS).ceil())
        .max((storage_gb / PARTITION_GB).ceil())
}

/// Invocations of a function.
#[derive(Debug, Clone, Copy)]
pub(super) struct Function {
    /// Average number of records or messages of an invocation.
    pub(super) batch: f64,
    /// Per second.
    pub(super) invocations: f64,
    pub(super) duration_ms: f64,
    /// Billed, per second.
    pub(super) gb_seconds: f64,
}

impl Function {
    /// Calculates the invocations that process `rate` records or messages per second in batches of this size. A record takes
    /// `item_ms` of the CPU share, and a batch waits for `latencies` rounds of requests.
    fn of(rate: f64, batch: f64, measured: Duration, item_ms: f64, latencies: f64) -> Self {
        let duration_ms = measured.invocation_ms + batch * item_ms + latencies * LATENCY_MS;
        let gb_ms = (duration_ms + ROUNDING_MS) * MEMORY_MB / 1_024.0;
        Self {
            batch,
            invocations: rate / batch,
            duration_ms,
            gb_seconds: rate / batch * gb_ms / 1_000.0,
        }
    }

    /// Calculates the invocations of stream-fn. `latencies` returns the rounds of requests of a batch.
    pub(super) fn stream(rate: f64, shards: f64, item_bytes: u64, latencies: impl Fn(f64) -> f64) -> Self {
        let batch = batch(rate, shards * PARALLELIZATION, BATCH_SIZE);
        Self::of(rate, batch, STREAM, STREAM.item_ms(item_bytes), latencies(batch))
    }

    fn writer(args: &PlanArgs, units: &Units) -> Self {
        let batch = match args.source.as_str() {
            "queue" => batch(args.updates_per_second, QUEUE_POLLERS, QUEUE_BATCH_SIZE),
            _ => 1.0,
        };
        let item_ms = WRITER.item_ms(args.item_bytes) * units.requests;
        // The updates of a batch are written concurrently, so one that is rejected delays the batch.
        let rejected = 1.0 - (1.0 - units.rejections).powf(batch);
        let latencies = units.latencies - units.rejections + rejected;
        Self::of(args.updates_per_second, batch, WRITER, item_ms, latencies)
    }

    /// Returns the average number of concurrent invocations.
    pub(super) fn concurrency(&self) -> f64 {
        self.invocations * self.duration_ms / 1_000.0
    }
}

/// Returns the average size of a batch, up to `max`, of pollers that receive `rate` records per second. Records arrive at random times, so
/// some polls find none, which invoke nothing.
fn batch(rate: f64, pollers: f64, max: f64) -> f64 {
    let mean = rate / POLLS_PER_SECOND / pollers;
    let received = mean / -(-mean).exp_m1();
    if received.is_finite() {
        received.clamp(1.0, max)
    } else {
        1.0
    }
}

/// Load of all parts, per second unless the name states another unit.
#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    pub(super) units: Units,
    /// Table of latest items.
    pub(super) table: Table,
    /// History table, `None` if it is the same.
    pub(super) history: Option<Table>,
    pub(super) stream: Function,
    pub(super) writer: Function,
    pub(super) queue_requests: f64,
    /// In a month.
    pub(super) log_gb: f64,
}

impl Load {
    pub(super) fn of(args: &PlanArgs) -> Self {
        let rate = args.updates_per_second;
        let units = Units::of(args);
        let stored_gb = |bytes: u64| (bytes + STORAGE_OVERHEAD_BYTES) as f64 / GB;
        let has_ledger = args.method.idempotency == Idempotency::Ledger;
        let marked_seconds = f64::from(u8::from(has_ledger)) * MARKER_RETENTION.as_secs_f64();
        let versions_gb = rate * stored_gb(units.version_bytes);
        let versions = Table {
            write_units: rate * units.version,
            storage_gb: versions_gb * DAY_SECONDS * args.stored_days(),
            growth_gb: versions_gb * MONTH_SECONDS,
        };
        let mut table = Table {
            write_units: rate * units.latest,
            storage_gb: args.entities as f64 * stored_gb(units.latest_bytes)
                + marked_seconds * rate * stored_gb(MARKER_BYTES),
            growth_gb: 0.0,
        };
        let has_own_history = args.has_own_history();
        if !has_own_history {
            table.write_units += versions.write_units;
            table.storage_gb += versions.storage_gb;
            table.growth_gb += versions.growth_gb;
        }
        // The up to four requests of a batch are concurrent.
        let stream = Function::stream(
            rate,
            partitions(table.write_units, table.storage_gb),
            args.item_bytes,
            |_| 1.0,
        );
        let writer = Function::writer(args, &units);
        let log_bytes = rate * UPDATE_LOG_BYTES + (writer.invocations + stream.invocations) * INVOCATION_LOG_BYTES;
        Self {
            units,
            table,
            history: has_own_history.then_some(versions),
            stream,
            writer,
            queue_requests: queue_requests(args, writer.batch),
            log_gb: f64::from(u8::from(args.monitoring)) * log_bytes * MONTH_SECONDS / GB,
        }
    }
}

/// Returns the number of requests to the queue: to send each update, to receive a batch, and to delete it. An empty queue is polled, too.
fn queue_requests(args: &PlanArgs, batch: f64) -> f64 {
    let polls = QUEUE_POLLERS / POLL_SECONDS;
    if args.source != "queue" {
        return polls;
    }
    let (rate, size) = (
        args.updates_per_second,
        (args.item_bytes as f64 + ENVELOPE_BYTES) / QUEUE_REQUEST_BYTES,
    );
    rate * size.ceil() + (rate * size.max(1.0 / batch)).max(polls) + rate / batch
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_are_no_argument_match_the_template() {
        let template = include_str!("../../../../template.yaml");
        let metrics = |text: &str| text.matches("  MetricName: ").count() as f64;
        let monitoring = include_str!("../../../monitoring/template.yaml");
        let of_logs = monitoring.matches("MetricTransformations:").count() as f64;
        let attached = metrics(include_str!("../../../attach/template.yaml"));
        let counted = [metrics(template), attached, metrics(monitoring) - of_logs].map(|count| count.to_string());
        assert_eq!(
            counted,
            [ALARMS, ATTACHED_ALARMS, MONITORING_ALARMS].map(|count| count.to_string())
        );
        for (place, name, value) in [
            ("\n        NewImages:", "BatchSize:", BATCH_SIZE),
            ("\n  StreamFunction:", "MaximumBatchingWindowInSeconds:", 0.0),
            ("\n  StreamFunction:", "ParallelizationFactor:", PARALLELIZATION),
            ("\n        Updates:", "BatchSize:", QUEUE_BATCH_SIZE),
            ("\nGlobals:", "MemorySize:", MEMORY_MB),
        ] {
            let mut lines = template[template.find(place).unwrap()..].lines();
            let found = lines.find_map(|line| line.trim().strip_prefix(name)).unwrap();
            assert_eq!(found.trim(), value.to_string(), "{name} of {place}");
        }
    }
}
