//! Cost of a month, and the output of the command.

use serde_json::{Map, Value, json};
use shared::logging::variant;

use super::{
    PlanArgs,
    figures::{
        ALARMS, CUSTOM_METRICS, MONITORING_ALARMS, MONTH_SECONDS, PARTITION_WRITE_UNITS, QUEUE_COUNTS, STREAM_COUNTS,
    },
    load::{Function, Load, Table, partitions},
    sealing,
};

/// Returns the load and the cost of these arguments in JSON.
pub(super) fn plan(args: &PlanArgs) -> Value {
    let load = Load::of(args);
    let (units, table) = (&load.units, &load.table);
    let partition_writes = match load.history {
        None => units.writes(),
        Some(_) => units.latest.max(units.version),
    };
    let function = |function: &Function| {
        json!({
            "InvocationsPerSecond": function.invocations,
            "BatchSize": function.batch,
            "DurationMs": function.duration_ms,
            "Concurrency": function.concurrency(),
        })
    };
    let plan = json!({
        "UpdatesPerSecond": args.updates_per_second,
        "Entities": args.entities,
        "ItemBytes": args.item_bytes,
        "Mode": variant(&args.method.mode).to_lowercase(),
        "Idempotency": variant(&args.method.idempotency).to_lowercase(),
        "HistoryTable": args.history_table,
        "Source": args.source,
        "Monitoring": args.monitoring,
        "TimeIndex": args.time_index || args.seal,
        "Update": {
            "WriteUnits": units.writes() + args.index_units(),
            "PartitionWriteUnits": partition_writes,
            "ReadUnits": units.reads,
            "LatestItemBytes": units.latest_bytes,
        },
        "Table": {
            "WriteUnitsPerSecond": table.write_units,
            "ReadUnitsPerSecond": args.updates_per_second * units.reads,
            "Partitions": partitions(table.write_units, table.storage_gb),
            "StorageDays": args.stored_days(),
            "StorageGB": table.storage_gb,
            "StorageGrowthGBPerMonth": table.growth_gb,
        },
        "History": load.history.map(|history| json!({
            "WriteUnitsPerSecond": history.write_units,
            "Partitions": partitions(history.write_units, history.storage_gb),
            "StorageGB": history.storage_gb,
            "StorageGrowthGBPerMonth": history.growth_gb,
        })),
        "HottestEntity": { "MostUpdatesPerSecond": PARTITION_WRITE_UNITS / partition_writes },
        "StreamFunction": function(&load.stream),
        "WriterFunction": function(&load.writer),
        "Sealing": sealing(args).map(|parts| Map::from_iter(parts.map(|(part, cost)| (part.to_owned(), json!(cost))))),
        "MonthlyCost": cost(args, &load),
    });
    rounded(plan, |number| {
        // Six digits. The figures are less accurate than that.
        let rounded: f64 = format!("{number:.5e}").parse().unwrap_or(number);
        rounded.to_string().parse().map_or(Value::Null, Value::Number)
    })
}

/// Returns the parts of the cost of sealing, `None` if versions are not sealed.
fn sealing(args: &PlanArgs) -> Option<[(&'static str, f64); 4]> {
    let parts = sealing::parts(&Prices::read(), args.updates_per_second, args.item_bytes);
    args.seal.then_some(parts)
}

fn cost(args: &PlanArgs, load: &Load) -> Value {
    let (prices, updates_per_second) = (Prices::read(), args.updates_per_second);
    let index_writes = updates_per_second * args.index_units();
    let millions = |per_second: f64, unit: &str| per_second * MONTH_SECONDS / 1e6 * prices.of(unit);
    let sum = |amount: fn(&Table) -> f64| amount(&load.table) + load.history.as_ref().map_or(0.0, amount);
    let (storage_gb, growth_gb) = (sum(|table| table.storage_gb), sum(|table| table.growth_gb));
    let monitored = f64::from(u8::from(args.monitoring));
    let metrics = monitored * (CUSTOM_METRICS + QUEUE_COUNTS + STREAM_COUNTS);
    let parts = [
        (
            "Writes",
            millions(sum(|table| table.write_units) + index_writes, "WriteRequestUnits"),
        ),
        (
            "Reads",
            millions(updates_per_second * load.units.reads, "ReadRequestUnits"),
        ),
        ("Storage", storage_gb * prices.of("Storage")),
        ("Backup", storage_gb * prices.of("Backup")),
        ("WriterFunction", prices.function(&load.writer)),
        ("StreamFunction", prices.function(&load.stream)),
        ("Queue", millions(load.queue_requests, "QueueRequests")),
        ("Logs", load.log_gb * prices.of("Logs")),
        (
            "Alarms",
            (ALARMS + monitored * MONITORING_ALARMS) * prices.of("AlarmMetrics"),
        ),
        ("Metrics", metrics * prices.of("CustomMetrics")),
        (
            "Sealing",
            sealing(args).map_or(0.0, |parts| parts.iter().map(|(_, cost)| cost).sum()),
        ),
    ];
    let mut cost = prices.cost(parts, growth_gb * (prices.of("Storage") + prices.of("Backup")));
    let (oldest, newest) = prices.dates();
    (cost["PricesFrom"], cost["PricesTo"]) = (json!(oldest), json!(newest));
    cost
}

/// Rounds each number that is not a whole one.
pub(super) fn rounded(value: Value, round: fn(f64) -> Value) -> Value {
    match value {
        Value::Number(number) if number.is_f64() => round(number.as_f64().unwrap_or_default()),
        Value::Object(members) => {
            let members = members.into_iter().map(|(name, value)| (name, rounded(value, round)));
            members.collect()
        }
        other => other,
    }
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
    pub(super) fn cost<const N: usize>(&self, parts: [(&str, f64); N], growth: f64) -> Value {
        let total: f64 = parts.iter().map(|(_, cost)| cost).sum();
        let parts = parts.map(|(part, cost)| (part.to_owned(), json!(cost)));
        json!({
            "Currency": self.0["Currency"],
            "Region": self.0["Region"],
            "Parts": Map::from_iter(parts),
            "Total": total,
            "GrowthPerMonth": growth,
        })
    }

    /// Returns the oldest and the newest date since which a price is known to be valid.
    fn dates(&self) -> (Option<&str>, Option<&str>) {
        let entries = self.0.as_object().into_iter().flat_map(|list| list.values());
        let dates = entries.filter_map(|entry| entry["Date"].as_str());
        (dates.clone().min(), dates.max())
    }

    /// Returns the cost of a month of these invocations.
    pub(super) fn function(&self, function: &Function) -> f64 {
        let gb_second = self.of("LambdaArm64");
        (function.invocations / 1e6 * self.of("LambdaRequests") + function.gb_seconds * gb_second) * MONTH_SECONDS
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use shared::config::{Idempotency, WriteMode};

    use super::*;
    use crate::write_options::Method;

    /// Returns each part of the cost, and the total.
    fn costs(args: &PlanArgs) -> Vec<f64> {
        let cost = &plan(args)["MonthlyCost"];
        let parts = cost["Parts"].as_object().unwrap().values();
        parts.chain([&cost["Total"]]).filter_map(Value::as_f64).collect()
    }

    proptest! {
        #[test]
        fn the_cost_is_valid_and_grows_with_each_input(
            rate in -3.0..=9.0f64, entities in 0..=12u32, item_bytes in 1..=409_600u64, mode in 0..3usize, has_ledger: bool,
            has_own_history: bool, has_queue: bool, time_index: bool, seal: bool, retention_days in prop::option::of(0.0..=36_500.0f64), factor in 1..1_000u32,
        ) {
            let args = PlanArgs {
                updates_per_second: 10f64.powf(rate),
                entities: 10u64.pow(entities),
                item_bytes,
                retention_days,
                history_table: if has_own_history { "own" } else { "same" }.to_owned(),
                source: if has_queue { "queue" } else { "direct" }.to_owned(),
                monitoring: has_queue,
                time_index,
                seal,
                method: Method {
                    mode: [WriteMode::Stream, WriteMode::Inline, WriteMode::Transaction][mode],
                    idempotency: if has_ledger { Idempotency::Ledger } else { Idempotency::default() },
                },
            };
            let less = costs(&args);
            prop_assert!(less.len() == 12 && less.iter().all(|cost| *cost >= 0.0), "{less:?}");
            let (parts, total) = (less[..11].iter().sum::<f64>(), less[11]);
            prop_assert!((parts - total).abs() <= total * 1e-4, "{less:?}");
            for more in [
                PlanArgs { updates_per_second: args.updates_per_second * f64::from(factor), ..args.clone() },
                PlanArgs { entities: args.entities * u64::from(factor), ..args.clone() },
                PlanArgs { item_bytes: args.item_bytes * u64::from(factor), ..args },
            ] {
                let more = costs(&more);
                prop_assert!(less.iter().zip(&more).all(|(less, more)| *more >= less * (1.0 - 1e-4)), "{less:?} {more:?}");
            }
        }
    }
}
