//! Which bound is met first, and what to turn then.

use super::{
    figures::{
        ACCOUNT_CONCURRENCY, MARKS_BYTES, MAX_ITEM_BYTES, NEW_TABLE_WRITE_UNITS, PARTITION_WRITE_UNITS,
        QUEUE_IN_FLIGHT, TABLE_WRITE_UNITS, TRANSACTION_LATENCIES,
    },
    model::{Inputs, Load},
};

/// A bound, and what it bears.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Limit {
    pub(super) name: &'static str,
    pub(super) load: f64,
    pub(super) bound: f64,
    pub(super) unit: &'static str,
    pub(super) turn: &'static str,
}

impl Limit {
    /// How much of the bound is used.
    pub(super) fn used(&self) -> f64 {
        self.load / self.bound
    }

    pub(super) fn is_exceeded(&self) -> bool {
        self.load > self.bound
    }

    /// Whether a higher rate would meet it.
    pub(super) fn is_of_rate(&self) -> bool {
        !["ItemSize", "Memory"].contains(&self.name)
    }
}

/// The one that is not met yet, and will be next.
pub(super) fn nearest(limits: &[Limit]) -> Option<&Limit> {
    limits.iter().find(|limit| limit.is_of_rate() && !limit.is_exceeded())
}

/// Every bound, the one that is exceeded most, and so was met first, at the beginning.
pub(super) fn limits(inputs: &Inputs, load: &Load) -> Vec<Limit> {
    let item = load
        .units
        .latest_bytes
        .max(inputs.item_bytes.saturating_add(MARKS_BYTES));
    let mut limits = vec![
        Limit {
            name: "ItemSize",
            load: item as f64,
            bound: MAX_ITEM_BYTES as f64,
            unit: "bytes",
            turn: "no rate helps: keep large values elsewhere, such as in S3, and their place in the item",
        },
        Limit {
            name: "HottestEntity",
            load: load.hottest_write_units,
            bound: PARTITION_WRITE_UNITS,
            unit: "write units/s",
            turn: "make several entities of it, or put its updates together before they are sent; smaller items, or a smaller \
                   --idempotency-window, take fewer write units",
        },
        Limit {
            name: "NewTable",
            load: load.write_units,
            bound: NEW_TABLE_WRITE_UNITS,
            unit: "write units/s",
            turn: "a table grows into it, by doubling within 30 minutes; to begin with it, set the table's warm throughput",
        },
        Limit {
            name: "TableQuota",
            load: load.write_units,
            bound: TABLE_WRITE_UNITS,
            unit: "write units/s",
            turn: "ask AWS for a higher quota of the table, or spread the entities over several stacks",
        },
        Limit {
            name: "StreamFunction",
            load: inputs.updates_per_second,
            bound: load.stream.capacity,
            unit: "records/s",
            turn: "history falls behind: raise BatchSize, then ParallelizationFactor (to 10), then MemorySize",
        },
        Limit {
            name: "HottestLane",
            load: load.hottest_updates,
            bound: load.lane_capacity,
            unit: "records/s",
            turn: "the history of the hottest entity falls behind: raise BatchSize, then MemorySize; no parallelization helps one item",
        },
        Limit {
            name: "WriterFunction",
            load: inputs.updates_per_second,
            bound: load.writer.capacity,
            unit: "messages/s",
            turn: "the queue grows: raise MaximumConcurrency (to 1,000), then BatchSize of the queue's mapping with a window, then \
                   MemorySize; beyond that several queues, an entity always in the same one",
        },
        Limit {
            name: "AccountConcurrency",
            load: load.writer.concurrency + load.stream.concurrency,
            bound: ACCOUNT_CONCURRENCY,
            unit: "invocations at once",
            turn: "ask AWS for a higher quota, and reserve concurrency for both functions; larger batches need less of it",
        },
        Limit {
            name: "MessagesInFlight",
            load: load.messages_in_flight,
            bound: QUEUE_IN_FLIGHT,
            unit: "messages",
            turn: "several queues, an entity always in the same one",
        },
        Limit {
            name: "Memory",
            load: load.stream.memory_needed_mb.max(load.writer.memory_needed_mb),
            bound: inputs.memory_mb,
            unit: "MB",
            turn: "raise MemorySize, or lower BatchSize",
        },
    ];
    if load.units.races {
        limits.push(Limit {
            name: "LostRaces",
            load: load.hottest_updates,
            bound: 1_000.0 / (inputs.latency_ms * (1.0 + TRANSACTION_LATENCIES)),
            unit: "updates/s",
            turn: "updates of one entity take turns, each a read and a transaction, and whoever comes between runs again: put \
                   them together before they are sent, or use --mode stream with --idempotency recent, which reads nothing first",
        });
    }
    // What does not fit works at no rate.
    limits.sort_by(|a, b| {
        let unfit = |limit: &Limit| limit.name == "ItemSize" && limit.is_exceeded();
        unfit(b).cmp(&unfit(a)).then(b.used().total_cmp(&a.used()))
    });
    limits
}
