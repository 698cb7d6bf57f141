//! Cost of a month, and the output of the command.

use serde_json::{Map, Value, json};
use shared::config::{Idempotency, WriteMode};

use super::{
    figures::{MONTH_SECONDS, PARTITION_WRITE_UNITS},
    load::{Function, Inputs, Load, Table},
};

/// Returns the load and the cost of these inputs in JSON.
pub(super) fn plan(inputs: &Inputs) -> Value {
    let load = Load::of(inputs);
    let units = &load.units;
    let partition_writes = match load.history {
        None => units.writes(),
        Some(_) => units.latest.max(units.version),
    };
    let function = |function: &Function| {
        json!({
            "InvocationsPerSecond": rounded(function.invocations),
            "BatchSize": rounded(function.batch),
            "DurationMs": rounded(function.duration_ms),
            "Concurrency": rounded(function.concurrency()),
            "MemoryMB": rounded(inputs.memory_mb),
        })
    };
    json!({
        "UpdatesPerSecond": rounded(inputs.updates_per_second),
        "Entities": inputs.entities,
        "ItemBytes": inputs.item_bytes,
        "Mode": match inputs.mode {
            WriteMode::Stream => "stream",
            WriteMode::Inline => "inline",
            WriteMode::Transaction => "transaction",
        },
        "Idempotency": match inputs.idempotency {
            Idempotency::Recent(window) => format!("recent, {window}"),
            Idempotency::Ledger(_) => "ledger".to_owned(),
        },
        "HistoryTable": if load.history.is_some() { "own" } else { "same" },
        "Update": {
            "WriteUnits": rounded(units.writes()),
            "PartitionWriteUnits": rounded(partition_writes),
            "ReadUnits": rounded(units.reads),
            "LatestItemBytes": units.latest_bytes,
        },
        "Table": {
            "WriteUnitsPerSecond": rounded(load.table.write_units),
            "ReadUnitsPerSecond": rounded(inputs.updates_per_second * units.reads),
            "Partitions": rounded(load.table.partitions()),
            "StorageDays": rounded(inputs.retention_days),
            "StorageGB": rounded(load.table.storage_gb),
            "StorageGrowthGBPerMonth": rounded(load.table.growth_gb),
        },
        "History": load.history.map(|history| json!({
            "WriteUnitsPerSecond": rounded(history.write_units),
            "Partitions": rounded(history.partitions()),
            "StorageGB": rounded(history.storage_gb),
            "StorageGrowthGBPerMonth": rounded(history.growth_gb),
        })),
        "HottestEntity": { "MostUpdatesPerSecond": rounded(PARTITION_WRITE_UNITS / partition_writes) },
        "StreamFunction": function(&load.stream),
        "WriterFunction": function(&load.writer),
        "MonthlyCost": cost(inputs, &load),
    })
}

fn cost(inputs: &Inputs, load: &Load) -> Value {
    let prices = Prices::read();
    let millions = |per_second: f64| per_second * MONTH_SECONDS / 1e6;
    let history = load.history.as_ref();
    let sum = |amount: fn(&Table) -> f64| amount(&load.table) + history.map_or(0.0, amount);
    let (storage_gb, backup) = (sum(|table| table.storage_gb), prices.of("Backup"));
    let read_units = inputs.updates_per_second * load.units.reads;
    let write_units = sum(|table| table.write_units);
    let parts = [
        ("Writes", millions(write_units) * prices.of("WriteRequestUnits")),
        ("Reads", millions(read_units) * prices.of("ReadRequestUnits")),
        ("Storage", storage_gb * prices.of("Storage")),
        ("Backup", storage_gb * backup),
        ("WriterFunction", prices.function(&load.writer)),
        ("StreamFunction", prices.function(&load.stream)),
        ("Queue", millions(load.queue_requests) * prices.of("QueueRequests")),
        ("Logs", load.log_gb * prices.of("Logs")),
    ];
    let total = parts.iter().map(|(_, cost)| cost).sum();
    let growth = sum(|table| table.growth_gb) * (prices.of("Storage") + backup);
    let (oldest, newest) = prices.dates();
    let parts = parts.map(|(part, cost)| (part.to_owned(), rounded(cost)));
    json!({
        "Currency": prices.text("Currency"),
        "Region": prices.text("Region"),
        "PricesFrom": oldest,
        "PricesTo": newest,
        "Parts": parts.into_iter().collect::<Map<_, _>>(),
        "Total": rounded(total),
        "GrowthPerMonth": rounded(growth),
    })
}

/// The price list of one Region.
pub(super) struct Prices(Value);

impl Prices {
    pub(super) fn read() -> Self {
        Self(serde_json::from_str(include_str!("prices.json")).unwrap_or_default())
    }

    /// Returns a price, in its unit.
    pub(super) fn of(&self, name: &str) -> f64 {
        self.0[name]["Price"].as_f64().unwrap_or(f64::NAN)
    }

    /// Returns the currency or the Region.
    pub(super) fn text(&self, name: &str) -> &str {
        self.0[name].as_str().unwrap_or_default()
    }

    /// Returns the oldest and the newest date since which a price is known to be valid.
    pub(super) fn dates(&self) -> (&str, &str) {
        let entries = self.0.as_object().into_iter().flat_map(|list| list.values());
        let dates = entries.filter_map(|entry| entry["Date"].as_str());
        let (oldest, newest) = (dates.clone().min(), dates.max());
        (oldest.unwrap_or_default(), newest.unwrap_or_default())
    }

    /// Returns the cost of a month of these invocations.
    pub(super) fn function(&self, function: &Function) -> f64 {
        let gb_second = self.of("LambdaArm64");
        (function.invocations / 1e6 * self.of("LambdaRequests") + function.gb_seconds * gb_second) * MONTH_SECONDS
    }
}

/// Rounds to six digits. The figures are less accurate than that.
fn rounded(number: f64) -> Value {
    let rounded: f64 = format!("{number:.5e}").parse().unwrap_or(number);
    rounded.to_string().parse().map_or(Value::Null, Value::Number)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use shared::config::{Retention, Window};

    use super::{
        super::{
            figures::{Duration, STREAM_CURVE, WRITER_CURVE},
            load::tests::inputs,
        },
        *,
    };

    fn assert_figures(plan: &Value, expected: &[(&str, f64)]) {
        for (name, expected) in expected {
            let found = plan.pointer(name).and_then(Value::as_f64).unwrap_or(f64::NAN);
            let close = (found - expected).abs() <= expected.abs() * 1e-4;
            assert!(close, "{name}: {found} instead of {expected}");
        }
    }

    #[test]
    fn a_thousand_updates_a_second_match_manual_calculation() {
        // 30 days of versions of 600 bytes, and 100,000 latest items of 992.
        let gb = (2_592_000.0 * 1_000.0 * 600.0 + 100_000.0 * 992.0) / 1_073_741_824.0;
        // 290 lanes, polled four times a second: 0.862 records each time, and 1.49 in the polls that have any.
        let mean: f64 = 1_000.0 / 4.0 / 290.0;
        let batch = mean / (1.0 - (-mean).exp());
        let measured = Duration::of(&STREAM_CURVE, 512.0);
        let stream_ms = measured.invocation_ms + 5.0 + batch * measured.item_micros / 1_000.0;
        let stream = (2_628.0 * 0.2 + 2_628e6 * (stream_ms + 0.5) / 1_000.0 / 2.0 * 0.000_013_333_4) / batch;
        // 10/9 requests an update: 10 times their CPU time. 5 ms, and another 5 ms if one of ten updates needs a second request.
        let measured = Duration::of(&WRITER_CURVE, 512.0);
        let latency_ms = 5.0 + 5.0 * (1.0 - (8.0_f64 / 9.0).powi(10));
        let writer_ms = measured.invocation_ms + latency_ms + 10.0 * measured.item_micros / 1_000.0 * 10.0 / 9.0;
        let writer = 262.8 * 0.2 + 262.8e6 * (writer_ms + 0.5) / 1_000.0 / 2.0 * 0.000_013_333_4;
        let growth = 2_628e6 * 600.0 / 1_073_741_824.0;
        assert_figures(
            &plan(&inputs()),
            &[
                // 19 write units in 9 updates; 500 + 29 + 57 + 17 * 18 bytes.
                ("/Table/WriteUnitsPerSecond", 19_000.0 / 9.0),
                ("/Update/LatestItemBytes", 892.0),
                ("/HottestEntity/MostUpdatesPerSecond", 9_000.0 / 19.0),
                ("/Table/StorageGB", gb),
                ("/Table/StorageGrowthGBPerMonth", growth),
                // 145 partitions by size, 3 by writes.
                ("/Table/Partitions", 145.0),
                ("/StreamFunction/BatchSize", batch),
                ("/StreamFunction/DurationMs", stream_ms),
                ("/StreamFunction/Concurrency", stream_ms / batch),
                ("/WriterFunction/BatchSize", 10.0),
                ("/WriterFunction/DurationMs", writer_ms),
                ("/MonthlyCost/Parts/Writes", 2_628.0 * 19.0 / 9.0 * 0.625),
                ("/MonthlyCost/Parts/Reads", 0.0),
                ("/MonthlyCost/Parts/Storage", gb * 0.25),
                ("/MonthlyCost/Parts/Backup", gb * 0.2),
                // One request to send it, a tenth to receive it, a tenth to delete it.
                ("/MonthlyCost/Parts/Queue", 2_628.0 * 1.2 * 0.4),
                ("/MonthlyCost/Parts/WriterFunction", writer),
                ("/MonthlyCost/Parts/StreamFunction", stream),
                (
                    "/MonthlyCost/Parts/Logs",
                    2_628e6 * (430.0 + 140.0 + 1400.0 / batch) / 1_073_741_824.0 * 0.5,
                ),
                ("/MonthlyCost/GrowthPerMonth", growth * 0.45),
            ],
        );
    }

    #[test]
    fn a_history_table_pruning_and_the_ledger_have_their_cost() {
        // 30 days of versions of 500 + 18 + 100 bytes, and 100,000 latest items of 992.
        let gb = |bytes: f64| bytes / 1_073_741_824.0;
        let (versions, latest) = (gb(2_592_000.0 * 1_000.0 * 618.0), gb(99.2e6));
        let own = Inputs {
            has_own_history: true,
            ..inputs()
        };
        let expected = [
            ("/Table/WriteUnitsPerSecond", 10_000.0 / 9.0),
            ("/History/WriteUnitsPerSecond", 1_000.0),
            ("/Table/StorageGB", latest),
            ("/History/StorageGB", versions),
            // By size; the stream has the shards of latest items only.
            ("/History/Partitions", 150.0),
            ("/Table/Partitions", 4.0),
            ("/Table/StorageGrowthGBPerMonth", 0.0),
            ("/HottestEntity/MostUpdatesPerSecond", 900.0),
            ("/MonthlyCost/Parts/Writes", 2_628.0 * 19.0 / 9.0 * 0.625),
            ("/MonthlyCost/Parts/Storage", (versions + latest) * 0.25),
            ("/MonthlyCost/GrowthPerMonth", gb(2_628e6 * 618.0) * 0.45),
        ];
        assert_figures(&plan(&own), &expected);
        let pruned = Inputs {
            is_pruned: true,
            ..inputs()
        };
        assert_figures(&plan(&pruned), &[("/Update/WriteUnits", 28.0 / 9.0)]);
        let ledger = Inputs {
            idempotency: Idempotency::Ledger("15".parse().unwrap()),
            entities: 1_000,
            retention_days: 0.0,
            ..inputs()
        };
        // 238 bytes for each ledger item, for 15 days; 629 bytes for each latest item.
        let gb = gb(15.0 * 86_400.0 * 1_000.0 * 238.0 + 1_000.0 * 629.0);
        let reads = ("/MonthlyCost/Parts/Reads", 2_628.0 * 0.125);
        assert_figures(&plan(&ledger), &[("/Table/StorageGB", gb), reads]);
    }

    /// Returns each part of the cost, and the total.
    fn costs(inputs: &Inputs) -> Vec<f64> {
        let cost = &plan(inputs)["MonthlyCost"];
        let parts = cost["Parts"].as_object().unwrap().values();
        parts
            .chain([&cost["Total"]])
            .map(|cost| cost.as_f64().unwrap())
            .collect()
    }

    proptest! {
        #[test]
        fn the_cost_is_valid_and_grows_with_each_input(
            rate in -3.0..=9.0f64, entities in 0..=12u32, item_bytes in 1..=409_600u64, mode in 0..3usize, window in 0..=100u8,
            has_own_history: bool, is_pruned: bool, retention_days in 0.0..=36_500.0f64, memory_mb in 128.0..=10_240.0f64, factor in 1..1_000u32,
        ) {
            let inputs = Inputs {
                updates_per_second: 10f64.powf(rate),
                entities: 10u64.pow(entities),
                item_bytes,
                mode: [WriteMode::Stream, WriteMode::Inline, WriteMode::Transaction][mode],
                idempotency: Window::new(window).map_or(Idempotency::Ledger(Retention::default()), Idempotency::Recent),
                has_own_history,
                retention_days,
                is_pruned,
                memory_mb,
            };
            let less = costs(&inputs);
            prop_assert!(less.iter().all(|cost| *cost >= 0.0), "{less:?}");
            let (parts, total) = (less[..8].iter().sum::<f64>(), less[8]);
            prop_assert!((parts - total).abs() <= total * 1e-4, "{less:?}");
            for more in [
                Inputs { updates_per_second: inputs.updates_per_second * f64::from(factor), ..inputs },
                Inputs { entities: inputs.entities * u64::from(factor), ..inputs },
                Inputs { item_bytes: inputs.item_bytes * u64::from(factor), ..inputs },
            ] {
                let more = costs(&more);
                prop_assert!(less.iter().zip(&more).all(|(less, more)| *more >= less * (1.0 - 1e-4)), "{less:?} {more:?}");
            }
        }
    }
}
