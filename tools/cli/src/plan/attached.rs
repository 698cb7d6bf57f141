//! Cost of the history of an attached table, by the formulas of the plan where both have the same part.
//!
//! A change makes one version. stream-fn reads the newest version of the item and inserts the next one, each in a request for up to
//! 25 items. The writers of the table, and Lambda's reads of the stream, cost nothing in addition.

use serde_json::{Map, Value, json};

use super::{
    curve::Duration,
    figures::{
        BASE_MEMORY_MB, GB, INVOCATION_LOG_BYTES, MONTH_SECONDS, NEW_TABLE_WRITE_UNITS, PARTITION_WRITE_UNITS,
        POLLS_PER_SECOND, ROUNDING_MS, STORAGE_OVERHEAD_BYTES, STREAM_CURVE,
    },
    model::within,
    prices::Prices,
};

/// Bytes of a version item in addition to those of the item: keys, `Stream`, `RequestId`, `RecordedAt`, `RecordedBy` and `Image`.
const VERSION_BYTES: u64 = 2 + 50 + 2 + 11 + 6 + 23 + 9 + 21 + 10 + 30 + 10 + 6 + 8;
/// `ParallelizationFactor`, `BatchSize`, `MemorySize` in MB, and the latency of a request in milliseconds, as the defaults of the plan.
const PARALLELIZATION: f64 = 2.0;
const BATCH_SIZE: f64 = 100.0;
const MEMORY_MB: f64 = 512.0;
const LATENCY_MS: f64 = 5.0;
/// Maximum number of items of a request.
const CHUNK: f64 = 25.0;
const _: () = assert!(BASE_MEMORY_MB < MEMORY_MB);

/// Changes of a table, and its history table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attached {
    pub(crate) changes_per_second: f64,
    /// Average size of an item.
    pub(crate) item_bytes: u64,
    /// `true` if the history table has the table class Standard-Infrequent Access.
    pub(crate) is_infrequent: bool,
}

/// Parses a number of changes per second.
pub(crate) fn changes_per_second(text: &str) -> Result<f64, String> {
    within(text, 0.0, 1e9)
}

/// Returns the write units of an update of an item of this size.
pub(crate) fn write_units(item_bytes: u64) -> f64 {
    item_bytes.div_ceil(1024).max(1) as f64
}

/// Returns the cost of a month in JSON, with the prices that are compiled in.
pub(crate) fn monthly_cost(attached: Attached) -> Value {
    let Ok(prices) = Prices::read(None) else {
        return Value::Null;
    };
    let (rate, version) = (
        attached.changes_per_second,
        attached.item_bytes.saturating_add(VERSION_BYTES),
    );
    let price = |name: &str| match attached.is_infrequent {
        true => prices.of(&format!("{name}InfrequentAccess")),
        false => prices.of(name),
    };
    let millions = |per_second: f64| per_second * MONTH_SECONDS / 1e6;
    // An eventually consistent read.
    let read_units = version.div_ceil(4096) as f64 / 2.0;
    let shards = (NEW_TABLE_WRITE_UNITS / PARTITION_WRITE_UNITS)
        .max((rate * write_units(attached.item_bytes) / PARTITION_WRITE_UNITS).ceil());
    let batch = (rate / POLLS_PER_SECOND / (shards * PARALLELIZATION)).clamp(1.0, BATCH_SIZE);
    let measured = Duration::of(&STREAM_CURVE, MEMORY_MB);
    let work_ms = measured.invocation_ms + batch * measured.item_micros / 1_000.0;
    let duration_ms = work_ms + 2.0 * LATENCY_MS * (batch / CHUNK).ceil() + ROUNDING_MS;
    let invocations = rate / batch;
    let gb_seconds = invocations * duration_ms / 1_000.0 * MEMORY_MB / 1_024.0;
    let stream =
        millions(invocations) * prices.of("LambdaRequests") + gb_seconds * MONTH_SECONDS * prices.of("LambdaArm64");
    let growth_gb = rate * version.saturating_add(STORAGE_OVERHEAD_BYTES) as f64 * MONTH_SECONDS / GB;
    let storage = growth_gb * (price("Storage") + prices.of("Backup"));
    let parts = [
        (
            "Writes",
            millions(rate * write_units(version)) * price("WriteRequestUnits"),
        ),
        ("Reads", millions(rate * read_units) * price("ReadRequestUnits")),
        // A month of history.
        ("Storage", storage),
        ("StreamFunction", stream),
        (
            "Logs",
            invocations * INVOCATION_LOG_BYTES * MONTH_SECONDS / GB * prices.of("Logs"),
        ),
    ];
    let total = parts.iter().map(|(_, cost)| cost).sum();
    let parts = parts.map(|(name, cost)| (name.to_owned(), cents(cost)));
    json!({
        "Currency": prices.text("Currency"),
        "Region": prices.text("Region"),
        "Parts": parts.into_iter().collect::<Map<_, _>>(),
        "Total": cents(total),
        "GrowthPerMonth": cents(storage),
    })
}

/// Rounds to cents.
fn cents(cost: f64) -> Value {
    json!((cost * 100.0).round() / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cost_matches_a_manual_calculation() {
        let attached = Attached {
            changes_per_second: 10.0,
            item_bytes: 500,
            is_infrequent: false,
        };
        let cost = monthly_cost(attached);
        // 26.28 million changes: one write unit and half a read unit each, and 788 bytes with the overhead of storage.
        let expected = [
            ("Writes", 16.43),
            ("Reads", 1.64),
            ("Storage", 8.68),
            ("GrowthPerMonth", 8.68),
        ];
        for (part, expected) in expected {
            let found = cost["Parts"].get(part).unwrap_or(&cost[part]);
            assert!((found.as_f64().unwrap() - expected).abs() < 0.011, "{part}: {found}");
        }
        // Twice the write units above 1 KB.
        assert!((write_units(1024) - 1.0).abs() < 1e-9 && (write_units(1025) - 2.0).abs() < 1e-9);
        let infrequent = monthly_cost(Attached {
            is_infrequent: true,
            ..attached
        });
        let writes = |cost: &Value| cost["Parts"]["Writes"].as_f64().unwrap();
        assert!((writes(&infrequent) - 20.50).abs() < 0.011);
        let storage = |cost: &Value| cost["Parts"]["Storage"].as_f64().unwrap();
        assert!((storage(&infrequent) - storage(&cost) * 0.3 / 0.45).abs() < 0.011);
        let parts = cost["Parts"].as_object().unwrap().values();
        let sum: f64 = parts.map(|part| part.as_f64().unwrap()).sum();
        assert!((sum - cost["Total"].as_f64().unwrap()).abs() < 0.03);
    }

    #[test]
    fn no_change_costs_nothing() {
        let attached = Attached {
            changes_per_second: 0.0,
            item_bytes: 0,
            is_infrequent: false,
        };
        assert_eq!(monthly_cost(attached)["Total"], json!(0.0));
    }
}
