//! A plan as JSON. The tables for a terminal are made from that JSON.

use serde_json::{Map, Value, json};
use shared::dynamodb::write::{Idempotency, WriteMode};

use super::{
    calculate::Plan,
    limits::{Limit, nearest},
    model::{Function, TableClass, TableLoad},
    prices::Prices,
    units::HistoryTable,
};
use crate::{
    error::CliError,
    output::{Output, print_table, print_text},
};

/// Rows of the first table: JSON pointer of the value, label, unit. A row without a value is left out.
const ROWS: &str = "\
/Update/WriteUnits | an update writes | write units
/Update/PartitionWriteUnits | of these in one partition, maximum | write units
/Update/ReadUnits | an update reads | read units
/Update/LatestItemBytes | latest item, maximum | bytes
/Table/WriteUnitsPerSecond | writes of the table | write units/s
/Table/ReadUnitsPerSecond | reads of the table | read units/s
/Table/Partitions | partitions, and shards of the stream, minimum |
/Table/StorageGB | storage | GB
/Table/StorageGrowthGBPerMonth | storage growth | GB a month
/History/WriteUnitsPerSecond | history table, writes | write units/s
/History/Partitions | history table, partitions, minimum |
/History/StorageGB | history table, storage | GB
/History/StorageGrowthGBPerMonth | history table, storage growth | GB a month
/HottestEntity/UpdatesPerSecond | updates of the hottest entity | updates/s
/HottestEntity/WriteUnitsPerSecond | writes of the hottest entity | write units/s
/HottestEntity/MostUpdatesPerSecond | maximum for one entity | updates/s
/Stream/RecordsPerSecond | stream | records/s
/Stream/MBPerSecond | stream, volume | MB/s
/StreamFunction/InvocationsPerSecond | stream-fn | invocations/s
/StreamFunction/BatchSize | stream-fn, batch | records
/StreamFunction/DurationMs | stream-fn, duration | ms
/StreamFunction/Concurrency | stream-fn, concurrency | invocations
/StreamFunction/MostUpdatesPerSecond | stream-fn, maximum | records/s
/StreamFunction/MemoryNeededMB | stream-fn, memory needed | MB
/WriterFunction/InvocationsPerSecond | writer-fn | invocations/s
/WriterFunction/BatchSize | writer-fn, batch | messages
/WriterFunction/DurationMs | writer-fn, duration | ms
/WriterFunction/Concurrency | writer-fn, concurrency | invocations
/WriterFunction/MostUpdatesPerSecond | writer-fn, maximum | messages/s
/WriterFunction/MemoryNeededMB | writer-fn, memory needed | MB
/StreamFunction/MemoryMB | memory of each function | MB
/Queue/RequestsPerSecond | queue | requests/s
/Queue/MessagesInFlight | messages in flight |
/Queue/Queues | queues, minimum |
/LogsGBPerMonth | logs | GB a month";

pub(super) fn prices(list: &Map<String, Value>) -> Result<(), CliError> {
    let text = serde_json::to_string_pretty(list).map_err(|error| CliError::usage("the prices", error))?;
    print_text(&text)
}

pub(super) fn plan(plan: &Plan, prices: &Prices, output: &Output) -> Result<(), CliError> {
    let plan = json(plan, prices);
    if output.is_json() {
        return output.object(&plan);
    }
    let row = |row: &str| {
        let mut cells: Vec<_> = row.split('|').map(|cell| cell.trim().to_owned()).collect();
        let value = plan.pointer(&cells.remove(0))?;
        cells.insert(1, shown(value));
        Some(cells)
    };
    print_table(&["", "", "unit"], &ROWS.lines().filter_map(row).collect::<Vec<_>>())?;

    let cost = &plan["MonthlyCost"];
    let text = |name: &str| cost[name].as_str().unwrap_or_default();
    let parts = cost["Parts"].as_object().into_iter().flatten();
    let totals = [
        ("total", "Total"),
        ("each further month of history adds", "GrowthPerMonth"),
        ("Writes as fully used provisioned capacity", "ProvisionedWrites"),
    ];
    let totals = totals.map(|(label, member)| vec![label.to_owned(), shown(&cost[member])]);
    let rows: Vec<_> = parts
        .map(|(part, cost)| vec![part.clone(), shown(cost)])
        .chain(totals)
        .collect();
    print_table(&["part", &format!("{} a month", text("Currency"))], &rows)?;
    let (region, oldest, newest) = (text("Region"), text("PricesFrom"), text("PricesTo"));
    print_text(&format!("prices of {region}, {oldest} to {newest}"))?;

    let load = |limit: &Value| {
        let text = |member: &str| limit[member].as_str().unwrap_or_default().to_owned();
        let (load, bound) = (shown(&limit["Load"]), shown(&limit["Bound"]));
        format!("{}, {load} of {bound} {}", text("Limit"), text("Unit"))
    };
    let exceeded = plan["Limits"].as_array().map_or(&[][..], Vec::as_slice);
    for limit in exceeded {
        print_text(&format!(
            "{}: {}",
            load(limit),
            limit["Turn"].as_str().unwrap_or_default()
        ))?;
    }
    if exceeded.is_empty() && !plan["Nearest"].is_null() {
        print_text(&format!(
            "no limit is exceeded; the nearest is {}",
            load(&plan["Nearest"])
        ))?;
    }
    Ok(())
}

fn json(plan: &Plan, prices: &Prices) -> Value {
    let Plan {
        inputs, load, limits, ..
    } = plan;
    let function = |function: &Function| {
        json!({
            "InvocationsPerSecond": rounded(function.invocations),
            "BatchSize": rounded(function.batch),
            "CpuMicros": rounded(function.cpu_ms * 1_000.0),
            "InvocationMs": rounded(function.invocation_ms),
            "DurationMs": rounded(function.duration_ms),
            "Concurrency": rounded(function.concurrency),
            "MostConcurrency": rounded(function.max_concurrency),
            "MostUpdatesPerSecond": rounded(function.capacity),
            "MemoryMB": rounded(inputs.settings.memory),
            "MemoryNeededMB": rounded(function.memory_needed_mb),
        })
    };
    let (oldest, newest) = prices.dates();
    let parts = plan
        .costs
        .iter()
        .map(|(part, cost)| ((*part).to_owned(), rounded(*cost)));
    let exceeded = limits.iter().filter(|limit| limit.is_exceeded()).map(limit);
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
        "HistoryTable": match inputs.writing.history {
            HistoryTable::Same => "same",
            HistoryTable::Own => "own",
        },
        "Update": {
            "WriteUnits": rounded(load.units.writes()),
            "PartitionWriteUnits": rounded(load.units.partition_writes()),
            "ReadUnits": rounded(load.units.reads),
            "LatestItemBytes": load.units.latest_bytes,
        },
        "Table": {
            "WriteUnitsPerSecond": rounded(load.table.write_units),
            "ReadUnitsPerSecond": rounded(load.read_units),
            "Partitions": rounded(load.table.partitions),
            "StorageDays": rounded(inputs.retention_days),
            "StorageGB": rounded(load.table.storage_gb),
            "StorageGrowthGBPerMonth": rounded(load.table.storage_growth_gb),
        },
        "History": load.history.map(|history| history_table(&history, inputs.history_class)),
        "HottestEntity": {
            "UpdatesPerSecond": rounded(load.hottest_updates),
            "WriteUnitsPerSecond": rounded(load.hottest_write_units),
            "MostUpdatesPerSecond": rounded(load.max_entity_updates),
        },
        "Stream": {
            "Shards": rounded(load.table.partitions),
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
            "Currency": prices.text("Currency"),
            "Region": prices.text("Region"),
            "PricesFrom": oldest,
            "PricesTo": newest,
            "Parts": parts.collect::<Map<_, _>>(),
            "Total": rounded(plan.total()),
            "GrowthPerMonth": rounded(plan.growth),
            "ProvisionedWrites": rounded(plan.provisioned_writes),
        },
        "Limits": exceeded.collect::<Vec<_>>(),
        "Nearest": nearest(limits).map(limit),
    })
}

fn history_table(load: &TableLoad, class: TableClass) -> Value {
    json!({
        "Class": match class {
            TableClass::Standard => "standard",
            TableClass::InfrequentAccess => "infrequent-access",
        },
        "WriteUnitsPerSecond": rounded(load.write_units),
        "Partitions": rounded(load.partitions),
        "StorageGB": rounded(load.storage_gb),
        "StorageGrowthGBPerMonth": rounded(load.storage_growth_gb),
    })
}

fn limit(limit: &Limit) -> Value {
    json!({
        "Limit": limit.name,
        "Load": rounded(limit.load),
        "Bound": rounded(limit.bound),
        "Unit": limit.unit,
        "Turn": limit.tuning,
    })
}

/// Rounds to six digits. The figures are less accurate than that.
fn rounded(number: f64) -> Value {
    let rounded: f64 = format!("{number:.5e}").parse().unwrap_or(number);
    rounded.to_string().parse().map_or(Value::Null, Value::Number)
}

/// Formats a number with three digits, and commas between thousands.
fn shown(number: &Value) -> String {
    let rounded: f64 = format!("{:.2e}", number.as_f64().unwrap_or_default())
        .parse()
        .unwrap_or_default();
    let text = format!("{rounded:.12}");
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let groups: Vec<_> = whole.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy).collect();
    let text = format!("{}.{fraction}", groups.join(","));
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_formatted() {
        for (number, three_digits, six_digits) in [
            (0.0, "0", "0"),
            (1e-9, "0.000000001", "0.000000001"),
            (0.001_234, "0.00123", "0.001234"),
            (0.5, "0.5", "0.5"),
            (1.0, "1", "1"),
            (2.111_111_1, "2.11", "2.11111"),
            (12.34, "12.3", "12.34"),
            (999.6, "1,000", "999.6"),
            (1_234_567.0, "1,230,000", "1234570"),
            (1e9, "1,000,000,000", "1000000000"),
        ] {
            assert_eq!(shown(&json!(number)), three_digits);
            assert_eq!(rounded(number).to_string(), six_digits);
        }
    }

    #[test]
    fn every_row_has_a_value() {
        let prices = Prices::read(None).unwrap();
        let mut inputs = crate::plan::tests::even(1.0, 1, 1);
        inputs.writing.history = HistoryTable::Own;
        let plan = json(&Plan::of(inputs, &prices), &prices);
        for row in ROWS.lines() {
            let cells: Vec<_> = row.split('|').map(str::trim).collect();
            assert_eq!(cells.len(), 3, "{row}");
            assert!(plan.pointer(cells[0]).is_some_and(Value::is_number), "{row}");
        }
    }
}
