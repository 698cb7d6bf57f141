//! Cost of the history of an attached table.
//!
//! A change makes one version. stream-fn reads the newest version of the item and inserts the next one, each in a request for up to
//! 25 items. The writers of the table, and Lambda's reads of the stream, cost nothing in addition.

use serde_json::{Value, json};

use super::{
    figures::{ATTACHED_ALARMS, GB, MONTH_SECONDS, STORAGE_OVERHEAD_BYTES, STREAM_COUNTS},
    load::{Function, partitions, read_units, write_units},
    month::{Prices, rounded},
};

/// Bytes of a version item in addition to those of the item: keys, `Stream`, `RequestId`, `RecordedAt`, `RecordedBy` and `Image`.
const VERSION_BYTES: u64 = 2 + 50 + 2 + 11 + 6 + 23 + 9 + 21 + 10 + 30 + 10 + 6 + 8;
/// Maximum number of items of a request.
const CHUNK: f64 = 25.0;

/// Returns the cost of a month of history in JSON, for changes of items of an average size, with the prices that are compiled in.
pub(crate) fn monthly_cost(changes_per_second: f64, item_bytes: u64, has_time_index: bool) -> Value {
    let writes = write_units(item_bytes.saturating_add(VERSION_BYTES)) + f64::from(u8::from(has_time_index));
    let prices = Prices::read();
    let (rate, version) = (changes_per_second, item_bytes.saturating_add(VERSION_BYTES));
    let millions = |per_change: f64, unit: &str| rate * per_change * MONTH_SECONDS / 1e6 * prices.of(unit);
    let version_gb = version.saturating_add(STORAGE_OVERHEAD_BYTES) as f64 / GB;
    let shards = partitions(rate * write_units(item_bytes), 0.0);
    let stream = Function::stream(rate, shards, item_bytes, |batch| 2.0 * (batch / CHUNK).ceil());
    let growth = rate * version_gb * MONTH_SECONDS * (prices.of("Storage") + prices.of("Backup"));
    let parts = [
        ("Writes", millions(writes, "WriteRequestUnits")),
        // Eventually consistent.
        ("Reads", millions(read_units(version) / 2.0, "ReadRequestUnits")),
        // The average of the first month.
        ("Storage", growth / 2.0),
        ("StreamFunction", prices.function(&stream)),
        ("Alarms", ATTACHED_ALARMS * prices.of("AlarmMetrics")),
        ("Metrics", STREAM_COUNTS * prices.of("CustomMetrics")),
    ];
    rounded(prices.cost(parts, growth), |cost| json!((cost * 100.0).round() / 100.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cost_matches_a_manual_calculation() {
        let cost = monthly_cost(10.0, 500, false);
        let indexed = monthly_cost(10.0, 500, true);
        assert_eq!(indexed["Parts"]["Writes"], json!(32.85));
        // 26.28 million changes: one write unit and half a read unit each, and 788 bytes with the overhead of storage.
        for (part, expected) in [("Writes", 16.43), ("Reads", 1.64), ("Storage", 4.34)] {
            let found = cost["Parts"][part].as_f64().unwrap();
            assert!((found - expected).abs() < 0.011, "{part}: {cost}");
        }
        let parts = cost["Parts"].as_object().unwrap().values();
        let sum: f64 = parts.filter_map(Value::as_f64).sum();
        assert!((sum - cost["Total"].as_f64().unwrap()).abs() < 0.03, "{cost}");
        // Only alarms and metrics: 4 at 0.10, 6 at 0.30.
        assert_eq!(
            (&cost["GrowthPerMonth"], &monthly_cost(0.0, 0, true)["Total"]),
            (&json!(8.68), &json!(2.2))
        );
        // Twice the write units above 1 KB.
        assert_eq!([1024, 1025].map(|bytes| write_units(bytes).to_string()), ["1", "2"]);
    }
}
