//! Cost of the history of an attached table.
//!
//! A change makes one version. stream-fn reads the newest version of the item and inserts the next one, each in a request for up to
//! 25 items. The writers of the table, and Lambda's reads of the stream, cost nothing in addition.

use serde_json::{Value, json};

use super::{
    figures::{GB, INVOCATION_LOG_BYTES, MONTH_SECONDS, STORAGE_OVERHEAD_BYTES},
    load::{self, Function, partitions, read_units},
    month::Prices,
    within,
};

/// Bytes of a version item in addition to those of the item: keys, `Stream`, `RequestId`, `RecordedAt`, `RecordedBy` and `Image`.
const VERSION_BYTES: u64 = 2 + 50 + 2 + 11 + 6 + 23 + 9 + 21 + 10 + 30 + 10 + 6 + 8;
/// `MemorySize` of stream-fn in MB.
const MEMORY_MB: f64 = 512.0;
/// Maximum number of items of a request.
const CHUNK: f64 = 25.0;

/// Parses a number of changes per second.
pub(crate) fn changes_per_second(text: &str) -> Result<f64, String> {
    within(text, 0.0, 1e9)
}

/// Returns the write units of an update of an item of this size.
pub(crate) fn write_units(item_bytes: u64) -> f64 {
    load::write_units(item_bytes)
}

/// Returns the cost of a month of history in JSON, for changes of items of an average size, with the prices that are compiled in.
pub(crate) fn monthly_cost(changes_per_second: f64, item_bytes: u64) -> Value {
    let prices = Prices::read();
    let (rate, version) = (changes_per_second, item_bytes.saturating_add(VERSION_BYTES));
    let per_month = |per_second: f64| rate * per_second * MONTH_SECONDS;
    let growth_gb = per_month(version.saturating_add(STORAGE_OVERHEAD_BYTES) as f64 / GB);
    let shards = partitions(rate * write_units(item_bytes), 0.0);
    let stream = Function::stream(rate, shards, MEMORY_MB, item_bytes, |batch| {
        2.0 * (batch / CHUNK).ceil()
    });
    let logs_gb = stream.invocations * INVOCATION_LOG_BYTES * MONTH_SECONDS / GB;
    let millions = |per_second: f64| per_month(per_second) / 1e6;
    // A month of history.
    let storage = growth_gb * (prices.of("Storage") + prices.of("Backup"));
    // Reads are eventually consistent.
    let reads = millions(read_units(version) / 2.0);
    prices.cost(
        [
            (
                "Writes",
                millions(write_units(version)) * prices.of("WriteRequestUnits"),
            ),
            ("Reads", reads * prices.of("ReadRequestUnits")),
            ("Storage", storage),
            ("StreamFunction", prices.function(&stream)),
            ("Logs", logs_gb * prices.of("Logs")),
        ],
        storage,
        cents,
    )
}

fn cents(cost: f64) -> Value {
    json!((cost * 100.0).round() / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cost_matches_a_manual_calculation() {
        let cost = monthly_cost(10.0, 500);
        // 26.28 million changes: one write unit and half a read unit each, and 788 bytes with the overhead of storage.
        for (place, expected) in [
            ("/Parts/Writes", 16.43),
            ("/Parts/Reads", 1.64),
            ("/Parts/Storage", 8.68),
            ("/GrowthPerMonth", 8.68),
        ] {
            let found = cost.pointer(place).unwrap().as_f64().unwrap();
            assert!((found - expected).abs() < 0.011, "{place}: {cost}");
        }
        // Twice the write units above 1 KB.
        assert!((write_units(1024) - 1.0).abs() < 1e-9 && (write_units(1025) - 2.0).abs() < 1e-9);
        let parts = cost["Parts"].as_object().unwrap().values();
        let sum: f64 = parts.map(|part| part.as_f64().unwrap()).sum();
        assert!((sum - cost["Total"].as_f64().unwrap()).abs() < 0.03);
        assert_eq!(monthly_cost(0.0, 0)["Total"], json!(0.0));
    }
}
