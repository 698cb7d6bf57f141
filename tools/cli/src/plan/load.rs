//! Load of the system in a second: capacity units, storage, invocations, requests to the queue, and logs.

use shared::dynamodb::write::{Idempotency, WriteMode};

use super::{
    curve::Duration,
    figures::{
        BATCH_SIZE, DAY_SECONDS, ENVELOPE_BYTES, GB, INVOCATION_LOG_BYTES, LATENCY_MS, MARKER_BYTES, MIN_PARTITIONS,
        MONTH_SECONDS, PARALLELIZATION, PARTITION_GB, PARTITION_WRITE_UNITS, POLLS_PER_SECOND, QUEUE_BATCH_SIZE,
        QUEUE_POLLERS, QUEUE_REQUEST_BYTES, ROUNDING_MS, STORAGE_OVERHEAD_BYTES, STREAM_CURVE, STREAM_KB_MICROS,
        UPDATE_LOG_BYTES, VCPU_MEMORY_MB, WRITER_CURVE, WRITER_KB_MICROS,
    },
    units::Units,
};

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
    /// Calculates the invocations that process `rate` records or messages per second, each with this CPU time.
    fn of(rate: f64, batch: f64, memory_mb: f64, (invocation_ms, cpu_ms): (f64, f64), latencies: f64) -> Self {
        let (invocations, duration_ms) = (rate / batch, invocation_ms + batch * cpu_ms + latencies * LATENCY_MS);
        Self {
            batch,
            invocations,
            duration_ms,
            gb_seconds: invocations * (duration_ms + ROUNDING_MS) / 1_000.0 * memory_mb / 1_024.0,
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
        let cpu_ms = item_ms(measured, STREAM_KB_MICROS, item_bytes);
        Self::of(
            rate,
            batch,
            memory_mb,
            (measured.invocation_ms, cpu_ms),
            latencies(batch),
        )
    }

    fn writer(inputs: &Inputs, units: &Units) -> Self {
        let rate = inputs.updates_per_second;
        let batch = batch(rate / POLLS_PER_SECOND / QUEUE_POLLERS, QUEUE_BATCH_SIZE);
        let measured = Duration::of(&WRITER_CURVE, inputs.memory_mb);
        let cpu_ms = item_ms(measured, WRITER_KB_MICROS, inputs.item_bytes) * units.requests;
        // The updates of a batch are written concurrently, so one that is rejected delays the batch.
        let rejected = 1.0 - (1.0 - units.rejections).powf(batch);
        let latencies = units.latencies - units.rejections + rejected;
        Self::of(
            rate,
            batch,
            inputs.memory_mb,
            (measured.invocation_ms, cpu_ms),
            latencies,
        )
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
}
