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
    let idempotency = match inputs.idempotency {
        Idempotency::Recent(window) => format!("recent, {window}"),
        Idempotency::Ledger(_) => "ledger".to_owned(),
    };
    let mode = match inputs.mode {
        WriteMode::Stream => "stream",
        WriteMode::Inline => "inline",
        WriteMode::Transaction => "transaction",
    };
    json!({
        "UpdatesPerSecond": rounded(inputs.updates_per_second),
        "Entities": inputs.entities,
        "ItemBytes": inputs.item_bytes,
        "Mode": mode,
        "Idempotency": idempotency,
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
    let sum = |amount: fn(&Table) -> f64| amount(&load.table) + load.history.as_ref().map_or(0.0, amount);
    let (storage_gb, backup) = (sum(|table| table.storage_gb), prices.of("Backup"));
    let read_units = inputs.updates_per_second * load.units.reads;
    let growth = sum(|table| table.growth_gb) * (prices.of("Storage") + backup);
    let (oldest, newest) = prices.dates();
    let mut cost = prices.cost(
        [
            (
                "Writes",
                millions(sum(|table| table.write_units)) * prices.of("WriteRequestUnits"),
            ),
            ("Reads", millions(read_units) * prices.of("ReadRequestUnits")),
            ("Storage", storage_gb * prices.of("Storage")),
            ("Backup", storage_gb * backup),
            ("WriterFunction", prices.function(&load.writer)),
            ("StreamFunction", prices.function(&load.stream)),
            ("Queue", millions(load.queue_requests) * prices.of("QueueRequests")),
            ("Logs", load.log_gb * prices.of("Logs")),
        ],
        growth,
        rounded,
    );
    (cost["PricesFrom"], cost["PricesTo"]) = (json!(oldest), json!(newest));
    cost
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

    /// Returns the parts of a monthly cost, their total, and its growth in a month.
    pub(super) fn cost<const N: usize>(
        &self,
        parts: [(&str, f64); N],
        growth: f64,
        rounded: fn(f64) -> Value,
    ) -> Value {
        let total = parts.iter().map(|(_, cost)| cost).sum();
        let parts = parts.map(|(part, cost)| (part.to_owned(), rounded(cost)));
        json!({
            "Currency": self.0["Currency"],
            "Region": self.0["Region"],
            "Parts": parts.into_iter().collect::<Map<_, _>>(),
            "Total": rounded(total),
            "GrowthPerMonth": rounded(growth),
        })
    }

    /// Returns the oldest and the newest date since which a price is known to be valid.
    fn dates(&self) -> (&str, &str) {
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

    use super::{super::load::tests::inputs, *};

    /// Checks figures, each with its place and the calculation behind it.
    fn check(inputs: &Inputs, expected: &str) {
        let plan = plan(inputs);
        for line in expected.lines().map(str::trim).filter(|line| line.starts_with('/')) {
            let mut words = line.split_whitespace();
            let found = plan
                .pointer(words.next().unwrap())
                .and_then(Value::as_f64)
                .unwrap_or(f64::NAN);
            let expected: f64 = words.next().unwrap().parse().unwrap();
            assert!((found - expected).abs() <= expected.abs() * 1e-4, "{line}: {found}");
        }
    }

    #[test]
    fn figures_match_manual_calculation() {
        // 1,000 updates a second make 2,628 million in a month of 730 hours. A GB has 1,073,741,824 bytes.
        check(
            &inputs(),
            "/Table/WriteUnitsPerSecond          2111.111    19 write units in 9 updates
             /Update/LatestItemBytes             892         500 + 29 + 57 + 17 * 18
             /HottestEntity/MostUpdatesPerSecond 473.684     9000 / 19
             /Table/StorageGB                    1448.485    30 days of versions of 600 bytes, 100,000 latest items of 992
             /Table/StorageGrowthGBPerMonth      1468.509    2628e6 * 600
             /Table/Partitions                   145         by size, 3 by writes
             /StreamFunction/BatchSize           1.492211    290 lanes, polled 4 times a second: 0.862 each time, if any
             /StreamFunction/DurationMs          5.896051    0.811 as measured, 5 of latency, 0.057 for each record
             /StreamFunction/Concurrency         3.951218    5.896 / 1.492
             /WriterFunction/BatchSize           10
             /WriterFunction/DurationMs          10.354541   0.412, 5 + 5 * (1 - (8/9)^10) of latency, 10/9 * 10 * 0.133
             /MonthlyCost/Parts/Writes           3467.5      2628 * 19/9 * 0.625
             /MonthlyCost/Parts/Reads            0
             /MonthlyCost/Parts/Storage          362.1213    1448.485 * 0.25
             /MonthlyCost/Parts/Backup           289.6971    1448.485 * 0.2
             /MonthlyCost/Parts/Queue            1261.44     2628 * 1.2 * 0.4: to send one, receive and delete a tenth
             /MonthlyCost/Parts/WriterFunction   71.57725    262.8 * 0.2 + 262.8e6 * 10.855 ms * 0.5 GB * 0.0000133334
             /MonthlyCost/Parts/StreamFunction   427.3252    (2628 * 0.2 + 2628e6 * 6.396 ms * 0.5 GB * 0.0000133334) / 1.492
             /MonthlyCost/Parts/Logs             1845.678    2628e6 * (430 + 140 + 1400 / 1.492) * 0.5
             /MonthlyCost/GrowthPerMonth         660.8292    1468.509 * 0.45",
        );
        let own = Inputs {
            has_own_history: true,
            ..inputs()
        };
        check(
            &own,
            "/Table/WriteUnitsPerSecond          1111.111    10 write units in 9 updates
             /History/WriteUnitsPerSecond        1000
             /Table/StorageGB                    0.0923872   100,000 latest items of 992 bytes
             /History/StorageGB                  1491.845    30 days of versions of 500 + 18 + 100 bytes
             /History/Partitions                 150         by size; the stream has the shards of latest items only
             /Table/Partitions                   4
             /Table/StorageGrowthGBPerMonth      0
             /HottestEntity/MostUpdatesPerSecond 900
             /MonthlyCost/Parts/Writes           3467.5      2628 * 19/9 * 0.625
             /MonthlyCost/Parts/Storage          372.9843
             /MonthlyCost/GrowthPerMonth         680.6541    2628e6 * 618 * 0.45",
        );
        let pruned = Inputs {
            is_pruned: true,
            ..inputs()
        };
        check(&pruned, "/Update/WriteUnits 3.111111 28 / 9");
        let ledger = Inputs {
            idempotency: Idempotency::Ledger("15".parse().unwrap()),
            entities: 1_000,
            retention_days: 0.0,
            ..inputs()
        };
        check(
            &ledger,
            "/Table/StorageGB          287.2652 15 days of ledger items of 238 bytes, 1,000 latest items of 629
             /MonthlyCost/Parts/Reads  328.5    2628 * 0.125",
        );
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
