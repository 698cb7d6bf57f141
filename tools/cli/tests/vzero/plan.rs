//! Tests of `vzero admin plan` as a command, and of the documents that contain its output.

use serde_json::{Value, json};
use testkit::{
    command::Run,
    pages::{root, rows},
    script_tests,
    table::Table,
};

script_tests! {
    Table;
    fn invalid_input_of_plan_is_rejected_with_its_reason();
    fn figures_match_manual_calculation();
    fn units_match_manual_calculation();
}

/// Returns the plan of 10,000 entities, without environment variables: no credentials, no Region, no table.
fn plan(rate: &str, more: &str) -> Value {
    let rate = rate.replace(',', "");
    let arguments = format!("plan --updates-per-second {rate} --entities 10000 --item-bytes 500 {more}");
    let run = Run::alone(crate::VZERO, &[], &arguments);
    assert_eq!(run.code, 0, "{arguments}: {run:?}");
    run.json()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is not a number"))
}

fn file(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap()
}

/// Formats a number with three digits, and commas between thousands.
fn shown(value: &Value) -> String {
    let rounded: f64 = format!("{:.2e}", number(value)).parse().unwrap();
    if rounded < 100.0 {
        return rounded.to_string();
    }
    let digits = format!("{rounded:.0}");
    let groups = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy);
    groups.collect::<Vec<_>>().join(",")
}

#[test]
fn the_prices_of_sealing_match_the_command() {
    let mut rates = Vec::new();
    for row in rows("docs/costs.md")
        .into_iter()
        .filter(|row| row.len() == 7 && row[0].starts_with('1'))
    {
        let (plain, sealed) = (plan(&row[0], ""), plan(&row[0], "--seal"));
        let writes = |plan: &Value| number(&plan["MonthlyCost"]["Parts"]["Writes"]);
        let index = writes(&sealed) - writes(&plain);
        let total = index + number(&sealed["MonthlyCost"]["Parts"]["Sealing"]);
        let parts = ["Reads", "Bucket", "Signatures", "Function"].map(|part| shown(&sealed["Sealing"][part]));
        let expected = [vec![shown(&json!(index))], parts.to_vec(), vec![shown(&json!(total))]].concat();
        assert_eq!(row[1..], expected);
        rates.push(row[0].clone());
    }
    assert_eq!(rates, ["1", "10", "100", "1,000"]);
}

#[test]
fn the_costs_of_the_default_stack_match_the_command() {
    let cost = |rate: &str, more: &str| plan(rate, more)["MonthlyCost"].take();
    let mut rates = Vec::new();
    for row in rows("docs/costs.md")
        .into_iter()
        .filter(|row| row.len() == 9 && row[0].starts_with('1'))
    {
        let default = cost(&row[0], "");
        let sum = |parts: &[&str]| json!(parts.iter().map(|part| number(&default["Parts"][*part])).sum::<f64>());
        let parts: [&[&str]; 5] = [
            &["Writes"],
            &["Storage", "Backup"],
            &["WriterFunction", "StreamFunction"],
            &["Queue"],
            &["Alarms"],
        ];
        let totals = [
            default["Total"].clone(),
            cost(&row[0], "--source queue")["Total"].take(),
            cost(&row[0], "--monitoring")["Total"].take(),
        ];
        let expected = parts
            .map(|parts| shown(&sum(parts)))
            .into_iter()
            .chain(totals.iter().map(shown));
        assert!(row[1..].iter().cloned().eq(expected), "{row:?}");
        rates.push(row[0].clone());
    }
    assert_eq!(rates, ["1", "10", "100"]);
    assert!(number(&cost("1", "")["Total"]) <= 6.0);
}

#[test]
fn the_tables_of_the_document_match_the_command() {
    let (mut rates, mut modes) = (Vec::new(), 0);
    for row in rows("docs/scaling.md") {
        let first = row[0].trim_matches('`');
        let expected = match row.len() {
            9 if first.starts_with(|c: char| c.is_ascii_digit()) => {
                rates.push(row[0].clone());
                let (same, own) = (plan(first, ""), plan(first, "--history-table own"));
                vec![
                    shown(&same["Table"]["WriteUnitsPerSecond"]),
                    shown(&own["History"]["WriteUnitsPerSecond"]),
                    shown(&same["Table"]["Partitions"]),
                    shown(&same["StreamFunction"]["Concurrency"]),
                    shown(&same["WriterFunction"]["Concurrency"]),
                    shown(&same["Table"]["StorageGrowthGBPerMonth"]),
                    shown(&same["MonthlyCost"]["Total"]),
                    shown(&own["MonthlyCost"]["Total"]),
                ]
            }
            5 if row[0].starts_with('`') => {
                modes += 1;
                let method = format!("--mode {first} --idempotency {}", row[1].trim_matches('`'));
                let (same, own) = (plan("1", &method), plan("1", &format!("{method} --history-table own")));
                let units = |plan: &Value| shown(&plan["Update"]["WriteUnits"]);
                assert_eq!(units(&same), units(&own), "{row:?}");
                let max = |plan: &Value| shown(&plan["HottestEntity"]["MostUpdatesPerSecond"]);
                vec![row[1].clone(), units(&same), max(&same), max(&own)]
            }
            _ => continue,
        };
        assert_eq!(row[1..], expected);
    }
    assert_eq!(rates, ["1", "10", "100", "1,000", "10,000", "100,000", "1,000,000"]);
    assert_eq!(modes, 5);
    let (one, busy) = (plan("1", ""), plan("10000", "--source queue"));
    let units = number(&one["Update"]["WriteUnits"]);
    let of_writer = 10_000.0 * 20.0 / number(&busy["WriterFunction"]["Concurrency"]);
    for rate in [4_000.0 / units, 40_000.0 / units, of_writer] {
        let rate = shown(&json!((rate / 100.0).round() * 100.0));
        assert!(file("docs/scaling.md").contains(&rate), "a limit is {rate}");
    }
}

#[test]
fn the_plans_beyond_one_machine_match_the_command() {
    let histories = ["same", "own"].map(|history| format!("--source queue --history-table {history}"));
    let plans = ["136,000", "1,000,000"].map(|rate| histories.each_ref().map(|more| plan(rate, more)));
    let rows = rows("docs/scaling.md");
    for (name, member) in [
        ("DynamoDB: write units/s of the table", "/Table/WriteUnitsPerSecond"),
        ("its stream: shards", "/Table/Partitions"),
        ("Lambda's mapping: records in a batch", "/StreamFunction/BatchSize"),
        ("invocations/s of stream-fn", "/StreamFunction/InvocationsPerSecond"),
        ("concurrency of stream-fn", "/StreamFunction/Concurrency"),
        ("invocations/s of writer-fn", "/WriterFunction/InvocationsPerSecond"),
        ("concurrency of writer-fn", "/WriterFunction/Concurrency"),
    ] {
        let row = rows.iter().find(|row| row[0] == name).unwrap();
        let expected = plans
            .as_flattened()
            .iter()
            .map(|plan| shown(plan.pointer(member).unwrap()));
        assert!(row[1..].iter().cloned().eq(expected), "{row:?}");
    }
}

/// Another test measures the figures of `docs/costs.md`, without stream-fn. The plan includes its rejected put if writer-fn stores the version item.
#[test]
fn write_units_match_the_measured_ones() {
    let mut checked = 0;
    for row in rows("docs/costs.md") {
        let (mode, history) = row[0].split_once(", ").unwrap_or((&row[0], "same"));
        let (mode, history) = (mode.trim_matches('`'), history.trim_matches('`'));
        if !["stream", "inline", "transaction"].contains(&mode) {
            continue;
        }
        checked += 1;
        let idempotency = if row.len() == 3 { &row[1] } else { "recent" };
        let method = format!("--mode {mode} --idempotency {idempotency} --history-table {history}");
        let (plan, rejected) = (plan("1", &method), if mode == "stream" { 0.0 } else { 1.0 });
        let units = number(&plan["Update"]["WriteUnits"]) - rejected;
        if let [_, _, measured] = &row[..] {
            let measured: f64 = measured.parse().unwrap();
            assert!((units - measured).abs() < 0.006, "{row:?}: {units}");
            continue;
        }
        let in_history = plan["History"].get("WriteUnitsPerSecond");
        let in_history = in_history.map_or(0.0, |units| number(units) - rejected);
        // The average includes the updates that remove old requests.
        let found = [units.floor(), in_history, number(&plan["Update"]["ReadUnits"])];
        assert_eq!(row[2..], found.map(|units| units.to_string()), "{row:?}");
    }
    assert_eq!(checked, 12);
}

#[test]
fn the_defaults_match_the_template() {
    let template = file("template.yaml");
    let by_default = plan("200000", "");
    for (flag, parameter, other) in [
        ("--mode", "\n  WriteMode:", "inline"),
        ("--history-table", "\n  HistoryTable:", "own"),
        ("--idempotency", "\n  Idempotency:", "ledger"),
    ] {
        let (_, from) = template.split_once(parameter).unwrap();
        let value = from.lines().find_map(|line| line.trim().strip_prefix("Default:"));
        let with = |value: &str| plan("200000", &format!("{flag} {value}"));
        assert_eq!(with(value.unwrap()), by_default, "{flag}");
        assert_ne!(with(other), by_default, "{flag} {other}");
    }
}

#[test]
fn every_member_is_documented() {
    let document = file("docs/vzero.md");
    let section = document
        .split("\n## ")
        .find(|section| section.starts_with("Plan\n"))
        .unwrap();
    let plan = plan("2000", "--history-table own");
    for (name, value) in plan.as_object().unwrap() {
        let inner = value.as_object().into_iter().flat_map(|inner| inner.keys());
        for name in inner.chain([name]) {
            assert!(section.contains(&format!("`{name}`")), "{name} is not documented");
        }
    }
}
