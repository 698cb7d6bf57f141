//! Tests of `vzero admin plan` as a command, and of the documents that contain its output.

use serde_json::{Value, json};
use testkit::{command::Run, script_tests, table::Table};

script_tests! {
    Table;
    fn invalid_input_of_plan_is_rejected_with_its_reason();
    fn figures_match_manual_calculation();
    fn units_match_manual_calculation();
}

/// Returns the plan of this rate and number of entities, without environment variables: no credentials, no Region, no table. The size
/// is 500 bytes, unless `more` contains it.
fn plan(rate: &str, entities: &str, more: &str) -> Value {
    let size = if more.contains("--item-bytes") {
        ""
    } else {
        "--item-bytes 500"
    };
    let arguments = format!("plan --updates-per-second {rate} --entities {entities} {size} {more}");
    let run = Run::alone(crate::VZERO, &[], &arguments);
    assert_eq!(run.code, 0, "{arguments}: {run:?}");
    run.json()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is not a number"))
}

fn file(path: &str) -> String {
    std::fs::read_to_string(format!("{}/../../{path}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

fn rows(document: &str, header: &str) -> Vec<Vec<String>> {
    let cell = |cell: &str| cell.trim().to_owned();
    let lines = document.lines().skip_while(|line| !line.starts_with(header)).skip(2);
    let rows = lines.take_while(|line| line.starts_with('|'));
    let rows: Vec<_> = rows
        .map(|line| line.trim_matches('|').split('|').map(cell).collect())
        .collect();
    assert!(!rows.is_empty(), "no table starts with {header}");
    rows
}

/// Formats a number with three digits, and commas between thousands.
fn shown(value: &Value) -> String {
    let rounded: f64 = format!("{:.2e}", number(value)).parse().unwrap();
    if rounded < 100.0 {
        return rounded.to_string();
    }
    let digits = format!("{rounded:.0}");
    let groups = digits.as_bytes().rchunks(3).rev();
    groups
        .map(|group| str::from_utf8(group).unwrap())
        .collect::<Vec<_>>()
        .join(",")
}

#[test]
fn the_table_of_the_document_matches_the_command() {
    let document = file("docs/scaling.md");
    let mut expected = Vec::new();
    let documented = rows(&document, "| updates/s |");
    for row in &documented {
        let plan_of = |more: &str| plan(&row[0].replace(',', ""), "1000000", more);
        let (same, own) = (plan_of(""), plan_of("--history-table own"));
        let total = |plan: &Value| shown(&plan["MonthlyCost"]["Total"]);
        expected.push(vec![
            row[0].clone(),
            shown(&same["Table"]["WriteUnitsPerSecond"]),
            shown(&own["History"]["WriteUnitsPerSecond"]),
            shown(&same["Table"]["Partitions"]),
            shown(&same["StreamFunction"]["Concurrency"]),
            shown(&same["WriterFunction"]["Concurrency"]),
            shown(&same["Table"]["StorageGrowthGBPerMonth"]),
            total(&same),
            total(&own),
        ]);
    }
    let (units, busy) = (
        number(&plan("1", "1", "")["Update"]["WriteUnits"]),
        plan("10000", "1000000", ""),
    );
    let of_writer = 10_000.0 * 20.0 / number(&busy["WriterFunction"]["Concurrency"]);
    for rate in [4_000.0 / units, 40_000.0 / units, of_writer] {
        let rate = shown(&json!((rate / 100.0).round() * 100.0));
        assert!(document.contains(&rate), "a limit is {rate}");
    }
    let rates: Vec<_> = documented.iter().map(|row| row[0].as_str()).collect();
    assert_eq!(rates, ["1", "10", "100", "1,000", "10,000", "100,000", "1,000,000"]);
    let lines: Vec<_> = expected.iter().map(|row| format!("| {} |", row.join(" | "))).collect();
    assert_eq!(documented, expected, "it should be\n{}", lines.join("\n"));
}

#[test]
fn the_maximum_of_one_entity_matches_the_document() {
    let documented = rows(&file("docs/scaling.md"), "| mode | idempotency | write units |");
    assert_eq!(documented.len(), 6);
    for row in documented {
        let (mode, idempotency) = (row[0].trim_matches('`'), row[1].trim_matches('`'));
        let (kind, window) = idempotency.split_once(", ").unwrap_or((idempotency, "1"));
        let more = format!("--mode {mode} --idempotency {kind} --idempotency-window {window}");
        let same = plan("1", "1", &more);
        let (units, max) = (&same["Update"]["WriteUnits"], |plan: &Value| {
            shown(&plan["HottestEntity"]["MostUpdatesPerSecond"])
        });
        let own = plan("1", "1", &format!("{more} --history-table own"));
        assert_eq!(units, &own["Update"]["WriteUnits"], "{row:?}");
        assert_eq!(row[2..5], [shown(units), max(&same), max(&own)], "{row:?}");
    }
}

/// Another test measures the figures of `docs/costs.md`, without stream-fn. The plan includes its rejected put if writer-fn stores the version item.
#[test]
fn write_units_match_the_measured_ones() {
    let document = file("docs/costs.md");
    let rejected = |mode: &str| if mode == "stream" { 0.0 } else { 1.0 };
    for row in rows(&document, "| mode | requests |") {
        let mode = row[0].trim_matches('`');
        if mode == "state" {
            continue;
        }
        let (mode, history) = mode.split_once(", ").unwrap_or((mode, "same"));
        let more = format!("--mode {mode} --item-bytes 600 --history-table {history}");
        let plan = &plan("1", "1", &more);
        let update = &plan["Update"];
        // The average includes the updates that remove old requests.
        let units = number(&update["WriteUnits"]) - rejected(mode);
        assert_eq!(units.floor().to_string(), row[2], "{row:?}");
        let in_history = plan["History"].get("WriteUnitsPerSecond");
        let in_history = in_history.map_or(0.0, |units| number(units) - rejected(mode));
        assert_eq!(in_history.to_string(), row[3], "{row:?}");
        assert_eq!(number(&update["ReadUnits"]).to_string(), row[4], "{row:?}");
    }
    for row in rows(&document, "| mode | idempotency |") {
        let (kind, window) = row[1].split_once(", ").unwrap_or((&row[1], "16"));
        let mode = &row[0];
        let more = format!("--mode {mode} --idempotency {kind} --idempotency-window {window}");
        let planned = number(&plan("1", "1", &more)["Update"]["WriteUnits"]) - rejected(mode);
        let measured: f64 = row[2].parse().unwrap();
        assert!((planned - measured).abs() < 0.006, "{row:?}: {planned}");
    }
}

#[test]
fn the_defaults_match_the_template() {
    let template = file("template.yaml");
    let by_default = plan("200000", "1000", "");
    for (flag, place, name, other) in [
        ("--memory", "\nGlobals:", "MemorySize:", "1024"),
        ("--mode", "\n  WriteMode:", "Default:", "inline"),
        ("--history-table", "\n  HistoryTable:", "Default:", "own"),
        ("--idempotency", "\n  Idempotency:", "Default:", "ledger"),
    ] {
        let from = template
            .find(place)
            .unwrap_or_else(|| panic!("{place} is not in the template"));
        let mut lines = template[from..].lines();
        let value = lines.find_map(|line| line.trim().strip_prefix(name)).unwrap();
        assert_eq!(
            plan("200000", "1000", &format!("{flag} {value}")),
            by_default,
            "{flag} {value}"
        );
        assert_ne!(
            plan("200000", "1000", &format!("{flag} {other}")),
            by_default,
            "{flag} {other}"
        );
    }
}

#[test]
fn every_member_is_documented() {
    let document = file("docs/vzero.md");
    let from = document.find("## Plan").unwrap();
    let section = &document[from..];
    let section = &section[..section[4..].find("\n## ").map_or(section.len(), |end| end + 4)];
    let Value::Object(members) = plan("2000", "1000", "--history-table own") else {
        panic!("not an object");
    };
    for (name, value) in &members {
        assert!(section.contains(&format!("`{name}`")), "{name} is not documented");
        for name in value.as_object().into_iter().flat_map(|inner| inner.keys()) {
            assert!(section.contains(&format!("`{name}`")), "{name} is not documented");
        }
    }
}
