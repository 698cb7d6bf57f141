//! Limits of the system: which of them a load exceeds, and the settings that raise them.

use super::{
    figures::{
        ACCOUNT_CONCURRENCY, MARKS_BYTES, MAX_ITEM_BYTES, NEW_TABLE_WRITE_UNITS, PARTITION_WRITE_UNITS,
        QUEUE_IN_FLIGHT, TABLE_WRITE_UNITS, TRANSACTION_LATENCIES,
    },
    model::{Inputs, Load},
};

/// Name and unit of each limit, and the settings or changes that raise it or lower the load.
const LIMITS: &str = "\
ItemSize | bytes | a lower rate does not help: store large values elsewhere, such as in S3, and their location in the item
HottestEntity | write units/s | split it into several entities, or combine its updates before sending them; smaller items, \
    or a smaller --idempotency-window, take fewer write units; --history-table own stores its versions in another partition
NewTable | write units/s | a table doubles its throughput within 30 minutes; to start with more, set its warm throughput
TableQuota | write units/s | request a quota increase for the table, or distribute the entities over several stacks
StreamFunction | records/s | history lags more and more: raise BatchSize, then ParallelizationFactor (to 10), then MemorySize
HottestLane | records/s | the history of the hottest entity lags more and more: raise BatchSize, then MemorySize; \
    ParallelizationFactor does not help one item
WriterFunction | messages/s | the queue grows: raise MaximumConcurrency (to 1,000), then BatchSize of the queue's mapping \
    with a window, then MemorySize; then use several queues, each entity always in the same one
AccountConcurrency | invocations at once | request a quota increase, and reserve concurrency for both functions; larger \
    batches need less concurrency
MessagesInFlight | messages | failed messages of a hot entity are in flight until their visibility timeout, and the queue delivers \
    no others: see HottestEntity; then use several queues, each entity always in the same one
Memory | MB | raise MemorySize, or lower BatchSize
LostRaces | updates/s | each update of an entity reads it, then writes it if it has not changed; a concurrent update makes it \
    start again: combine updates before sending them, or use --mode stream with --idempotency recent, which does not read first";

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Limit {
    pub(super) name: &'static str,
    pub(super) load: f64,
    pub(super) bound: f64,
    pub(super) unit: &'static str,
    pub(super) tuning: &'static str,
}

impl Limit {
    pub(super) fn used(&self) -> f64 {
        self.load / self.bound
    }

    pub(super) fn is_exceeded(&self) -> bool {
        self.load > self.bound
    }
}

/// Returns the limit that a growing rate of updates exceeds next.
pub(super) fn nearest(limits: &[Limit]) -> Option<&Limit> {
    let depends_on_rate = |limit: &Limit| !["ItemSize", "Memory"].contains(&limit.name);
    limits
        .iter()
        .find(|limit| depends_on_rate(limit) && !limit.is_exceeded())
}

/// Returns every limit. The first one is exceeded most, so a growing load exceeded it first.
pub(super) fn limits(inputs: &Inputs, load: &Load) -> Vec<Limit> {
    let limit = |row: &'static str| {
        let mut cells = row.splitn(3, " | ");
        let mut cell = || cells.next().unwrap_or_default();
        let (name, unit, tuning) = (cell(), cell(), cell());
        let (load, bound) = load_and_bound(name, inputs, load)?;
        Some(Limit {
            name,
            load,
            bound,
            unit,
            tuning,
        })
    };
    let mut limits: Vec<_> = LIMITS.lines().filter_map(limit).collect();
    // Failed messages of the hottest entity fill the queue, so a growing load reaches that limit after the one of the entity.
    let hottest = load.hottest_write_units / PARTITION_WRITE_UNITS;
    let order = |limit: &Limit| match limit.name {
        "MessagesInFlight" if load.hottest_updates > load.max_accepted => limit.used().min(hottest),
        _ => limit.used(),
    };
    // An item that is too large cannot be written at any rate.
    let is_too_large = |limit: &Limit| limit.name == "ItemSize" && limit.is_exceeded();
    limits.sort_by(|a, b| {
        let by_size = is_too_large(b).cmp(&is_too_large(a));
        by_size.then(order(b).total_cmp(&order(a)))
    });
    limits
}

/// Returns the write units of the table that gets more of them.
fn table_writes(load: &Load) -> f64 {
    let history = load.history.map_or(0.0, |history| history.write_units);
    load.table.write_units.max(history)
}

fn load_and_bound(name: &str, inputs: &Inputs, load: &Load) -> Option<(f64, f64)> {
    Some(match name {
        "ItemSize" => {
            let version = load.units.version_bytes.saturating_add(MARKS_BYTES);
            (load.units.latest_bytes.max(version) as f64, MAX_ITEM_BYTES as f64)
        }
        "HottestEntity" => (load.hottest_write_units, PARTITION_WRITE_UNITS),
        "NewTable" => (table_writes(load), NEW_TABLE_WRITE_UNITS),
        "TableQuota" => (table_writes(load), TABLE_WRITE_UNITS),
        "StreamFunction" => (inputs.updates_per_second, load.stream.capacity),
        // The partition of the entity accepts no more updates.
        "HottestLane" => (load.hottest_updates.min(load.max_accepted), load.lane_capacity),
        "WriterFunction" => (inputs.updates_per_second, load.writer.capacity),
        "AccountConcurrency" => (load.writer.concurrency + load.stream.concurrency, ACCOUNT_CONCURRENCY),
        "MessagesInFlight" => (load.messages_in_flight, QUEUE_IN_FLIGHT),
        "Memory" => (
            load.stream.memory_needed_mb.max(load.writer.memory_needed_mb),
            inputs.settings.memory,
        ),
        "LostRaces" if load.units.races => {
            let update_ms = inputs.settings.latency_ms * (1.0 + TRANSACTION_LATENCIES);
            (load.hottest_updates, 1_000.0 / update_ms)
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::{
        tests::{even, limit, planned},
        units::HistoryTable,
    };

    #[test]
    fn each_table_has_its_own_quota() {
        let exceeds = |rate, history| {
            let mut inputs = even(rate, 1_000_000, 500);
            inputs.writing.history = history;
            limit(&planned(inputs), "NewTable").is_exceeded()
        };
        assert!(exceeds(2_000.0, HistoryTable::Same) && !exceeds(2_000.0, HistoryTable::Own));
        assert!(exceeds(3_700.0, HistoryTable::Own));
    }
}
