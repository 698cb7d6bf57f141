//! Capacity and requests of one update, and the load of the system in a second: capacity units, storage, invocations, requests to the queue, and logs.

use shared::config::{Idempotency, WriteMode};

#[allow(clippy::wildcard_imports, reason = "the constants of all formulas")]
use super::figures::*;

#[derive(Debug, Clone, Copy)]
pub(super) struct Inputs {
    pub(super) updates_per_second: f64,
    pub(super) entities: u64,
    pub(super) item_bytes: u64,
    pub(super) mode: WriteMode,
    pub(super) idempotency: Idempotency,
    /// `true` if a second table stores history.
    pub(super) has_own_history: bool,
    /// Days of history that are stored.
    pub(super) retention_days: f64,
    /// `true` if versions are marked when they are pruned.
    pub(super) is_pruned: bool,
    pub(super) memory_mb: f64,
}

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
    pub(super) fn of(inputs: &Inputs) -> Self {
        let bytes = inputs.item_bytes;
        let version_bytes = match inputs.has_own_history {
            true => bytes + IMAGE_BYTES + IMAGE_ATTRIBUTES,
            false => bytes,
        };
        let (min, full, map_bytes, marker) = match inputs.idempotency {
            Idempotency::Recent(window) => (window.get(), window.full(), RECENT_BYTES, 0.0),
            Idempotency::Ledger(_) => (0, 0, 0, 2.0 * write_units(MARKER_BYTES)),
        };
        // A writer that reads first writes in a transaction, and prunes a full map in its first request.
        let reads_first = marker > 0.0 || inputs.mode == WriteMode::Transaction;
        // In a round, the map of recent requests grows from its minimum until it is full, and the request that finds it full is rejected.
        let size = |entries: usize| bytes + LATEST_BYTES + map_bytes + ENTRY_BYTES * entries as u64;
        let round = (min..=full).count() as f64;
        let reads = (min..=full).map(|entries| read_units(size(entries))).sum::<f64>() / round;
        // The first update of a round prunes the map. It costs as much as the item before it, which is larger.
        let pruning = write_units(size(full));
        let growing: f64 = (min + 1..=full).map(|entries| write_units(size(entries))).sum();
        let writes = (growing + pruning) / round;
        let inline = if inputs.mode == WriteMode::Inline { 1.0 } else { 0.0 };
        let (factor, rejections) = if reads_first { (2.0, 0.0) } else { (1.0, 1.0 / round) };
        let (requests, latencies) = match reads_first {
            true => (2.0, 1.0 + TRANSACTION_LATENCIES),
            false => (1.0 + rejections, 1.0 + rejections),
        };
        let version = write_units(version_bytes);
        let stored = match inputs.mode {
            WriteMode::Stream => version,
            WriteMode::Inline => 2.0 * version,
            WriteMode::Transaction => 3.0 * version,
        };
        let pruned = match inputs.is_pruned {
            true => write_units(version_bytes + TTL_BYTES),
            false => 0.0,
        };
        Self {
            latest_bytes: size(full),
            version_bytes,
            latest: factor * writes + rejections * pruning + marker,
            version: stored + pruned,
            reads: if reads_first { reads } else { 0.0 },
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
pub(super) fn write_units(bytes: u64) -> f64 {
    bytes.div_ceil(1024).max(1) as f64
}

/// Returns one unit of a consistent read for each 4 KB, rounded up.
pub(super) fn read_units(bytes: u64) -> f64 {
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

impl Table {
    pub(super) fn partitions(&self) -> f64 {
        partitions(self.write_units, self.storage_gb)
    }
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
        let (invocations, duration_ms) = (
            rate / batch,
            measured.invocation_ms + batch * item_ms + latencies * LATENCY_MS,
        );
        Self {
            batch,
            invocations,
            duration_ms,
            gb_seconds: invocations * (duration_ms + ROUNDING_MS) / 1_000.0 * measured.memory_mb / 1_024.0,
        }
    }

    /// Calculates the invocations of stream-fn. `latencies` returns the rounds of requests of a batch.
    pub(super) fn stream(
        rate: f64,
        shards: f64,
        memory_mb: f64,
        item_bytes: u64,
        latencies: impl Fn(f64) -> f64,
    ) -> Self {
        let batch = batch(rate / POLLS_PER_SECOND / (shards * PARALLELIZATION), BATCH_SIZE);
        let measured = Duration::of(&STREAM_CURVE, memory_mb);
        let item_ms = item_ms(measured, STREAM_KB_MICROS, item_bytes);
        Self::of(rate, batch, measured, item_ms, latencies(batch))
    }

    fn writer(inputs: &Inputs, units: &Units) -> Self {
        let rate = inputs.updates_per_second;
        let batch = batch(rate / POLLS_PER_SECOND / QUEUE_POLLERS, QUEUE_BATCH_SIZE);
        let measured = Duration::of(&WRITER_CURVE, inputs.memory_mb);
        let item_ms = item_ms(measured, WRITER_KB_MICROS, inputs.item_bytes) * units.requests;
        // The updates of a batch are written concurrently, so one that is rejected delays the batch.
        let rejected = 1.0 - (1.0 - units.rejections).powf(batch);
        let latencies = units.latencies - units.rejections + rejected;
        Self::of(rate, batch, measured, item_ms, latencies)
    }

    /// Returns the average number of concurrent invocations.
    pub(super) fn concurrency(&self) -> f64 {
        self.invocations * self.duration_ms / 1_000.0
    }
}

/// Returns the average size of a batch, up to `max`, if a poll finds `mean` records on average. Records arrive at random times, so some
/// polls find none, which invoke nothing.
fn batch(mean: f64, max: f64) -> f64 {
    let received = mean / -(-mean).exp_m1();
    if received.is_finite() {
        received.clamp(1.0, max)
    } else {
        1.0
    }
}

/// Returns the time that the CPU share needs for one record or request. `kb_micros` is the CPU time of each KB after the first.
fn item_ms(measured: Duration, kb_micros: f64, item_bytes: u64) -> f64 {
    let further_kb = (item_bytes as f64 / 1_024.0 - 1.0).max(0.0);
    let vcpu = (measured.memory_mb / VCPU_MEMORY_MB).min(1.0);
    (measured.item_micros + further_kb * kb_micros / vcpu) / 1_000.0
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
    pub(super) fn of(inputs: &Inputs) -> Self {
        let rate = inputs.updates_per_second;
        let units = Units::of(inputs);
        let stored_gb = |bytes: u64| (bytes + STORAGE_OVERHEAD_BYTES) as f64 / GB;
        let ledger_days = match inputs.idempotency {
            Idempotency::Ledger(retention) => retention.duration().as_secs_f64() / DAY_SECONDS,
            Idempotency::Recent(_) => 0.0,
        };
        let versions_gb = rate * stored_gb(units.version_bytes);
        let versions = Table {
            write_units: rate * units.version,
            storage_gb: versions_gb * DAY_SECONDS * inputs.retention_days,
            growth_gb: versions_gb * MONTH_SECONDS,
        };
        let mut table = Table {
            write_units: rate * units.latest,
            storage_gb: inputs.entities as f64 * stored_gb(units.latest_bytes)
                + ledger_days * DAY_SECONDS * rate * stored_gb(MARKER_BYTES),
            growth_gb: 0.0,
        };
        if !inputs.has_own_history {
            table.write_units += versions.write_units;
            table.storage_gb += versions.storage_gb;
            table.growth_gb += versions.growth_gb;
        }
        // The up to four requests of a batch are concurrent.
        let stream = Function::stream(rate, table.partitions(), inputs.memory_mb, inputs.item_bytes, |_| 1.0);
        let writer = Function::writer(inputs, &units);
        let log_bytes = rate * UPDATE_LOG_BYTES + (writer.invocations + stream.invocations) * INVOCATION_LOG_BYTES;
        Self {
            units,
            table,
            history: inputs.has_own_history.then_some(versions),
            stream,
            writer,
            queue_requests: rate * queue_requests(inputs.item_bytes, writer.batch),
            log_gb: log_bytes * MONTH_SECONDS / GB,
        }
    }
}

/// Returns the number of requests to the queue for an update: to send it, to receive a batch, and to delete the batch.
fn queue_requests(item_bytes: u64, batch: f64) -> f64 {
    let size = (item_bytes as f64 + ENVELOPE_BYTES) / QUEUE_REQUEST_BYTES;
    size.ceil() + size.max(1.0 / batch) + 1.0 / batch
}

#[cfg(test)]
pub(super) mod tests {
    use shared::config::Retention;

    use super::*;

    /// 1,000 updates a second of 100,000 entities, 500 bytes, with the default settings.
    pub(in super::super) fn inputs() -> Inputs {
        Inputs {
            updates_per_second: 1_000.0,
            entities: 100_000,
            item_bytes: 500,
            mode: WriteMode::Stream,
            idempotency: Idempotency::default(),
            has_own_history: false,
            retention_days: 30.0,
            is_pruned: false,
            memory_mb: 512.0,
        }
    }

    #[test]
    fn settings_that_are_no_argument_match_the_template() {
        let template = include_str!("../../../../template.yaml");
        for (place, name, value) in [
            ("\n        NewImages:", "BatchSize:", BATCH_SIZE),
            ("\n  StreamFunction:", "MaximumBatchingWindowInSeconds:", 0.0),
            ("\n  StreamFunction:", "ParallelizationFactor:", PARALLELIZATION),
            ("\n        Updates:", "BatchSize:", QUEUE_BATCH_SIZE),
        ] {
            let mut lines = template[template.find(place).unwrap()..].lines();
            let found = lines.find_map(|line| line.trim().strip_prefix(name)).unwrap();
            assert_eq!(found.trim(), value.to_string(), "{name} of {place}");
        }
    }

    /// Bytes, mode, window or ledger, history table; in ninths: write units of `latest` and `version`, read units, requests, latencies.
    /// - Windows: one rejected request in a round of 9, from 16 entries to 24.
    /// - Modes: two units of the marker; the rejected put of stream-fn behind `inline` and `transaction`.
    /// - 995: `Latest` and `RecordedVersion` take 29 bytes, to the last byte of a KB.
    /// - 530: 86 bytes, and 17 for each of up to 24 requests. The full map just fits the KB. With one byte more, the write that fills it
    ///   and the two that find it full take two units.
    /// - 1006: the map `Image` takes 18 bytes, to the last byte of a KB.
    const CASES: &str = "
        500 stream 16 same 10 9 0 10 10
        100 stream 1 same 10 9 0 10 10
        500 inline 16 same 10 18 0 19 19
        500 transaction 16 same 18 27 9 18 27
        500 stream ledger same 36 9 9 18 27
        500 inline ledger same 36 18 9 27 36
        500 transaction ledger same 36 27 9 18 27
        995 stream ledger same 36 9 9 18 27
        996 stream ledger same 54 9 9 18 27
        1025 stream ledger same 54 18 9 18 27
        530 stream 16 same 10 9 0 10 10
        531 stream 16 same 13 9 0 10 10
        2000 transaction 1 same 54 54 9 18 27
        4087 transaction 1 same 90 108 18 18 27
        1006 stream ledger own 54 9 9 18 27
        1007 stream ledger own 54 18 9 18 27";

    #[test]
    fn units_match_manual_calculation() {
        for case in CASES.trim().lines() {
            let cells: Vec<_> = case.split_whitespace().collect();
            let ledger = Idempotency::Ledger(Retention::default());
            let found = Units::of(&Inputs {
                item_bytes: cells[0].parse().unwrap(),
                mode: cells[1].parse().unwrap(),
                idempotency: cells[2].parse().map_or(ledger, Idempotency::Recent),
                has_own_history: cells[3] == "own",
                ..inputs()
            });
            let found = [
                found.latest,
                found.version,
                found.reads,
                found.requests,
                found.latencies,
            ];
            let expected = cells[4..].iter().map(|ninths| ninths.parse::<f64>().unwrap() / 9.0);
            let is_close = found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-9);
            assert!(is_close, "{case}: {found:?}");
        }
    }
}
