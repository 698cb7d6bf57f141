//! A plan as JSON, and as tables for the eye.

use serde_json::{Map, Value, json};
use shared::dynamodb::write::{Idempotency, WriteMode};

use super::{
    cost::Cost,
    limits::{Limit, nearest},
    model::{Function, Inputs, Load},
    prices::Prices,
};
use crate::{
    error::CliError,
    output::{Output, say_table, say_text},
};

/// A plan.
pub(super) struct Plan {
    pub(super) inputs: Inputs,
    pub(super) load: Load,
    pub(super) limits: Vec<Limit>,
    pub(super) cost: Cost,
}

pub(super) fn prices(list: &Map<String, Value>) -> Result<(), CliError> {
    let text = serde_json::to_string_pretty(list).map_err(|error| CliError::usage("the prices", error))?;
    say_text(&text)
}

pub(super) fn plan(plan: &Plan, prices: &Prices, output: &Output) -> Result<(), CliError> {
    if output.is_json() {
        return output.object(&json(plan, prices));
    }
    let row = |(what, value, unit): (&str, f64, &str)| vec![what.to_owned(), shown(value), unit.to_owned()];
    let rows: Vec<_> = figures(plan).into_iter().map(row).collect();
    say_table(&["", "", "unit"], &rows)?;

    let (oldest, newest) = prices.dates();
    let currency = format!("{} a month", prices.currency);
    let amount = |what: &str, amount: f64| vec![what.to_owned(), shown(amount)];
    let mut rows: Vec<_> = plan.cost.parts.iter().map(|(part, cost)| amount(part, *cost)).collect();
    rows.push(amount("together", plan.cost.total()));
    rows.push(amount("and with each further month of history", plan.cost.growth));
    rows.push(amount(
        "Writes as provisioned capacity, used to the full",
        plan.cost.provisioned_writes,
    ));
    say_table(&["part", &currency], &rows)?;
    say_text(&format!("prices of {}, {oldest} to {newest}", prices.region))?;

    let exceeded: Vec<_> = plan.limits.iter().filter(|limit| limit.is_exceeded()).collect();
    for limit in &exceeded {
        say_text(&format!("{}: {}", bears(limit), limit.turn))?;
    }
    if exceeded.is_empty()
        && let Some(nearest) = nearest(&plan.limits)
    {
        say_text(&format!("no limit is met; the nearest is {}", bears(nearest)))?;
    }
    Ok(())
}

fn bears(limit: &Limit) -> String {
    let Limit {
        name,
        load,
        bound,
        unit,
        ..
    } = limit;
    format!("{name}, {} of {} {unit}", shown(*load), shown(*bound))
}

fn figures(plan: &Plan) -> Vec<(&'static str, f64, &'static str)> {
    let Plan { inputs, load, .. } = plan;
    let mut figures = vec![
        ("an update writes", load.units.writes(), "write units"),
        ("an update reads", load.units.reads, "read units"),
        ("the latest item, at most", load.units.latest_bytes as f64, "bytes"),
        ("the table's writes", load.write_units, "write units/s"),
        ("the table's reads", load.read_units, "read units/s"),
        ("partitions, and shards of the stream, at least", load.partitions, ""),
        ("storage", load.storage_gb, "GB"),
        ("its growth", load.storage_growth_gb, "GB a month"),
        ("the hottest entity's updates", load.hottest_updates, "updates/s"),
        ("the hottest entity's writes", load.hottest_write_units, "write units/s"),
        ("what one entity takes at most", load.hottest_most_updates, "updates/s"),
        ("the stream", load.stream_records, "records/s"),
        ("", load.stream_mb, "MB/s"),
    ];
    for (function, [invocations, batch, duration, concurrency, capacity, memory]) in [
        (
            &load.stream,
            [
                "stream-fn",
                "its batch",
                "its duration",
                "at once",
                "it takes at most",
                "it needs",
            ],
        ),
        (
            &load.writer,
            [
                "writer-fn",
                "its batch",
                "its duration",
                "at once",
                "it takes at most",
                "it needs",
            ],
        ),
    ] {
        figures.extend([
            (invocations, function.invocations, "invocations/s"),
            (batch, function.batch, "records or messages"),
            (duration, function.duration_ms, "ms"),
            (concurrency, function.concurrency, "invocations"),
            (capacity, function.capacity, "records or messages/s"),
            (memory, function.memory_needed_mb, "MB of memory"),
        ]);
    }
    figures.extend([
        ("each function has", inputs.memory_mb, "MB of memory"),
        ("the queue", load.queue_requests, "requests/s"),
        ("messages in flight", load.messages_in_flight, ""),
        ("queues, at least", load.queues, ""),
        ("logs", load.log_gb, "GB a month"),
    ]);
    figures
}

fn json(plan: &Plan, prices: &Prices) -> Value {
    let Plan {
        inputs,
        load,
        limits,
        cost,
    } = plan;
    let function = |function: &Function| {
        json!({
            "InvocationsPerSecond": rounded(function.invocations),
            "BatchSize": rounded(function.batch),
            "DurationMs": rounded(function.duration_ms),
            "Concurrency": rounded(function.concurrency),
            "MostConcurrency": rounded(function.most_concurrency),
            "MostUpdatesPerSecond": rounded(function.capacity),
            "MemoryMB": rounded(inputs.memory_mb),
            "MemoryNeededMB": rounded(function.memory_needed_mb),
        })
    };
    let (oldest, newest) = prices.dates();
    let parts: Map<_, _> = cost
        .parts
        .iter()
        .map(|(part, amount)| ((*part).to_owned(), rounded(*amount)))
        .collect();
    let exceeded: Vec<_> = limits.iter().filter(|limit| limit.is_exceeded()).map(limit).collect();
    json!({
        "UpdatesPerSecond": rounded(inputs.updates_per_second),
        "Entities": inputs.entities,
        "ItemBytes": inputs.item_bytes,
        "Mode": match inputs.writing.mode {
            WriteMode::Stream => "stream",
            WriteMode::Inline => "inline",
            WriteMode::Transaction => "transaction",
        },
        "Idempotency": match inputs.writing.idempotency {
            Idempotency::Recent(window) => format!("recent, {window}"),
            Idempotency::Ledger(_) => "ledger".to_owned(),
        },
        "Update": {
            "WriteUnits": rounded(load.units.writes()),
            "ReadUnits": rounded(load.units.reads),
            "LatestItemBytes": load.units.latest_bytes,
        },
        "Table": {
            "WriteUnitsPerSecond": rounded(load.write_units),
            "ReadUnitsPerSecond": rounded(load.read_units),
            "Partitions": rounded(load.partitions),
            "StorageDays": rounded(inputs.retention_days),
            "StorageGB": rounded(load.storage_gb),
            "StorageGrowthGBPerMonth": rounded(load.storage_growth_gb),
        },
        "HottestEntity": {
            "UpdatesPerSecond": rounded(load.hottest_updates),
            "WriteUnitsPerSecond": rounded(load.hottest_write_units),
            "MostUpdatesPerSecond": rounded(load.hottest_most_updates),
        },
        "Stream": {
            "Shards": rounded(load.partitions),
            "RecordsPerSecond": rounded(load.stream_records),
            "MBPerSecond": rounded(load.stream_mb),
        },
        "StreamFunction": function(&load.stream),
        "WriterFunction": function(&load.writer),
        "Queue": {
            "RequestsPerSecond": rounded(load.queue_requests),
            "MessagesInFlight": rounded(load.messages_in_flight),
            "Queues": rounded(load.queues),
        },
        "LogsGBPerMonth": rounded(load.log_gb),
        "MonthlyCost": {
            "Currency": prices.currency,
            "Region": prices.region,
            "PricesFrom": oldest,
            "PricesTo": newest,
            "Parts": parts,
            "Total": rounded(cost.total()),
            "GrowthPerMonth": rounded(cost.growth),
            "ProvisionedWrites": rounded(cost.provisioned_writes),
        },
        "Limits": exceeded,
        "Nearest": nearest(limits).map(limit),
    })
}

fn limit(limit: &Limit) -> Value {
    json!({
        "Limit": limit.name,
        "Load": rounded(limit.load),
        "Bound": rounded(limit.bound),
        "Unit": limit.unit,
        "Turn": limit.turn,
    })
}

/// Six digits: none of it is known better.
fn rounded(number: f64) -> Value {
    let rounded: f64 = format!("{number:.5e}").parse().unwrap_or(number);
    serde_json::from_str(&rounded.to_string()).unwrap_or(Value::Null)
}

/// Three digits, and commas between thousands.
fn shown(number: f64) -> String {
    let rounded: f64 = format!("{number:.2e}").parse().unwrap_or(number);
    let (mut decimals, mut digits) = (0, rounded);
    while digits > 0.0 && digits < 100.0 && decimals < 12 {
        digits *= 10.0;
        decimals += 1;
    }
    let text = format!("{rounded:.decimals$}");
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let fraction = fraction.trim_end_matches('0');
    let mut grouped = String::new();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    if fraction.is_empty() {
        grouped
    } else {
        format!("{grouped}.{fraction}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_shown_as_they_are_read() {
        for (number, text) in [
            (0.0, "0"),
            (0.001_234, "0.00123"),
            (0.5, "0.5"),
            (1.0, "1"),
            (2.111_11, "2.11"),
            (999.6, "1,000"),
            (12.34, "12.3"),
            (1_234_567.0, "1,230,000"),
        ] {
            assert_eq!(shown(number), text);
        }
        for (number, text) in [
            (0.0, "0"),
            (2.111_111_1, "2.11111"),
            (1e9, "1000000000"),
            (1e-9, "0.000000001"),
        ] {
            assert_eq!(rounded(number).to_string(), text);
        }
    }
}
