//! Tests of `vzero plan` as a command, and of the documents that contain its output.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the message")]

use std::process::{Command, Output};

use serde_json::{Value, json};

/// Runs `vzero plan` with arguments that spaces separate, without environment variables: no credentials, no Region, no table.
fn vzero(arguments: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vzero"));
    command.env_clear().arg("plan").args(arguments.split_whitespace());
    command.output().unwrap()
}

/// Returns the plan of this rate and number of entities. The size is 500 bytes, unless `more` contains it.
fn plan(rate: &str, entities: &str, more: &str) -> Value {
    let size = if more.contains("--item-bytes") {
        ""
    } else {
        "--item-bytes 500"
    };
    let arguments = format!("--updates-per-second {rate} --entities {entities} {size} {more}");
    let output = vzero(&arguments);
    assert_eq!(output.status.code(), Some(0), "{arguments}: {}", stderr(&output));
    let text = stdout(&output);
    assert_eq!(text.lines().count(), 1, "{text}");
    serde_json::from_str(&text).unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
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

fn limits(plan: &Value) -> Vec<String> {
    let limits = plan["Limits"].as_array().unwrap();
    limits
        .iter()
        .map(|limit| limit["Limit"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn the_table_of_the_document_matches_the_command() {
    let document = file("docs/scaling.md");
    let mut expected = Vec::new();
    let documented = rows(&document, "| updates/s |");
    for row in &documented {
        let rate = row[0].replace(',', "");
        let plan = plan(&rate, "1000000", "");
        let mut limits: Vec<_> = limits(&plan).iter().map(|limit| format!("`{limit}`")).collect();
        if limits.is_empty() {
            limits.push("none".to_owned());
        }
        expected.push(vec![
            row[0].clone(),
            shown(&plan["Table"]["WriteUnitsPerSecond"]),
            shown(&plan["Table"]["Partitions"]),
            shown(&plan["StreamFunction"]["InvocationsPerSecond"]),
            shown(&plan["StreamFunction"]["Concurrency"]),
            shown(&plan["WriterFunction"]["Concurrency"]),
            shown(&plan["Table"]["StorageGrowthGBPerMonth"]),
            shown(&plan["MonthlyCost"]["Total"]),
            limits.join(", "),
        ]);
    }
    let rates: Vec<_> = documented.iter().map(|row| row[0].as_str()).collect();
    assert_eq!(rates, ["1", "10", "100", "1,000", "10,000", "100,000", "1,000,000"]);
    let lines: Vec<_> = expected.iter().map(|row| format!("| {} |", row.join(" | "))).collect();
    assert_eq!(documented, expected, "it should be\n{}", lines.join("\n"));
}

#[test]
fn the_table_of_the_document_with_a_history_table_matches_the_command() {
    let document = file("docs/scaling.md");
    let documented = rows(&document, "| updates/s, own |");
    let mut expected = Vec::new();
    for row in &documented {
        let plan_of = |more: &str| plan(&row[0].replace(',', ""), "1000000", more);
        let standard = plan_of("--history-table own");
        let infrequent = plan_of("--history-table own --history-class infrequent-access");
        assert_eq!(
            (&standard["HistoryTable"], &infrequent["HistoryTable"]),
            (&json!("own"), &json!("own"))
        );
        expected.push(vec![
            row[0].clone(),
            shown(&standard["Table"]["WriteUnitsPerSecond"]),
            shown(&standard["History"]["WriteUnitsPerSecond"]),
            shown(&standard["Table"]["Partitions"]),
            shown(&standard["History"]["StorageGrowthGBPerMonth"]),
            shown(&plan_of("")["MonthlyCost"]["Total"]),
            shown(&standard["MonthlyCost"]["Total"]),
            shown(&infrequent["MonthlyCost"]["Total"]),
        ]);
    }
    let rates: Vec<_> = documented.iter().map(|row| row[0].as_str()).collect();
    assert_eq!(rates, ["1", "10", "100", "1,000", "10,000"]);
    let lines: Vec<_> = expected.iter().map(|row| format!("| {} |", row.join(" | "))).collect();
    assert_eq!(documented, expected, "it should be\n{}", lines.join("\n"));
}

#[test]
fn a_class_needs_a_history_table() {
    let arguments = "--updates-per-second 1 --entities 1 --item-bytes 1 --history-class infrequent-access";
    let output = vzero(arguments);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("--history-table own"), "{}", stderr(&output));
    assert_eq!(plan("1", "1", "")["History"], Value::Null);
    assert_eq!(plan("1", "1", "--history-table own")["History"]["Class"], "standard");
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

/// Another test measures the figures of `docs/costs.md`.
#[test]
fn write_units_match_the_measured_ones() {
    let document = file("docs/costs.md");
    for row in rows(&document, "| mode | requests |") {
        let mode = row[0].trim_matches('`');
        if mode == "state" {
            continue;
        }
        let (mode, history) = mode.split_once(", ").unwrap_or((mode, "same"));
        let more = format!("--mode {mode} --no-stream-fn --item-bytes 600 --history-table {history}");
        let plan = &plan("1", "1", &more);
        let update = &plan["Update"];
        // The average includes the updates that remove old requests.
        assert_eq!(number(&update["WriteUnits"]).floor().to_string(), row[2], "{row:?}");
        let in_history = plan["History"].get("WriteUnitsPerSecond").map_or(0.0, number);
        assert_eq!(in_history.to_string(), row[3], "{row:?}");
        assert_eq!(number(&update["ReadUnits"]).to_string(), row[4], "{row:?}");
    }
    for row in rows(&document, "| mode | idempotency |") {
        let (kind, window) = row[1].split_once(", ").unwrap_or((&row[1], "16"));
        let mode = &row[0];
        let more = format!("--mode {mode} --idempotency {kind} --idempotency-window {window} --no-stream-fn");
        let planned = number(&plan("1", "1", &more)["Update"]["WriteUnits"]);
        let measured: f64 = row[2].parse().unwrap();
        assert!((planned - measured).abs() < 0.006, "{row:?}: {planned}");
    }
}

#[test]
fn the_defaults_match_the_template() {
    let template = file("template.yaml");
    let by_default = plan("200000", "1000", "");
    for (flag, place, name, other) in [
        ("--batch-size", "\n  BatchSize:", "Default:", "7"),
        (
            "--batching-window",
            "\n  StreamFunction:",
            "MaximumBatchingWindowInSeconds:",
            "3",
        ),
        (
            "--parallelization-factor",
            "\n  StreamFunction:",
            "ParallelizationFactor:",
            "5",
        ),
        ("--queue-batch-size", "\n        Updates:", "BatchSize:", "3"),
        ("--queue-concurrency", "\n        Updates:", "MaximumConcurrency:", "7"),
        ("--memory", "\nGlobals:", "MemorySize:", "1024"),
        ("--architecture", "\n  Architecture:", "Default:", "x86_64"),
        ("--mode", "\n  WriteMode:", "Default:", "inline"),
        ("--history-table", "\n  HistoryTable:", "Default:", "own"),
        ("--idempotency", "\n  Idempotency:", "Default:", "ledger"),
        ("--idempotency-window", "\n  IdempotencyWindow:", "Default:", "3"),
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
fn a_plan_names_the_exceeded_limit_and_its_tuning() {
    let plan = plan("2000", "1000", "--hottest-share 0.5");
    assert_eq!(limits(&plan)[0], "HottestEntity");
    let limit = &plan["Limits"][0];
    assert!((number(&limit["Load"]) - 2111.11).abs() < 0.1, "{limit}");
    assert_eq!(limit["Bound"], json!(1000));
    assert_eq!(limit["Unit"], "write units/s");
    assert!(limit["Turn"].as_str().unwrap().contains("several entities"), "{limit}");
    assert!((number(&plan["HottestEntity"]["MostUpdatesPerSecond"]) - 473.684).abs() < 0.001);

    let arguments = "--updates-per-second 2000 --entities 1000 --item-bytes 500 --output table --hottest-share 0.5";
    let output = vzero(arguments);
    assert_eq!(output.status.code(), Some(0));
    let text = stdout(&output);
    for expected in [
        "HottestEntity, 2,110 of 1,000 write units/s: split it",
        "write units/s",
        "USD a month",
        "GB a month",
    ] {
        assert!(text.contains(expected), "{expected} is not in\n{text}");
    }
}

#[test]
fn an_item_that_is_too_large_exceeds_a_limit() {
    assert_eq!(limits(&plan("1", "10", "--item-bytes 409585")), ["ItemSize"]);
    let huge = plan("1", "10", "--item-bytes 1000000000");
    assert!(limits(&huge).contains(&"ItemSize".to_owned()));
}

#[test]
fn the_total_is_the_sum_of_the_parts() {
    for (rate, entities, more) in [
        ("0.001", "1", ""),
        (
            "1e9",
            "1000000000000",
            "--item-bytes 409600 --mode transaction --idempotency ledger",
        ),
        ("250.5", "7", "--retention-days 90 --mode inline --architecture x86_64"),
    ] {
        let cost = &plan(rate, entities, more)["MonthlyCost"];
        let parts: f64 = cost["Parts"].as_object().unwrap().values().map(number).sum();
        let total = number(&cost["Total"]);
        assert!((parts - total).abs() <= total * 1e-4 && total > 0.0, "{cost}");
    }
}

#[test]
fn invalid_input_is_rejected_with_its_reason() {
    let valid = ["--updates-per-second 1", "--entities 10", "--item-bytes 500"];
    for (arguments, reason) in [
        ("--updates-per-second 0", "0.001 to 1000000000"),
        ("--updates-per-second NaN", "0.001 to 1000000000"),
        ("--updates-per-second inf", "0.001 to 1000000000"),
        ("--updates-per-second=-5", "0.001 to 1000000000"),
        ("--updates-per-second 1e10", "0.001 to 1000000000"),
        ("--entities 0", "1..=1000000000000"),
        ("--entities 1000000000001", "1..=1000000000000"),
        ("--item-bytes 0", "1..=1000000000"),
        ("--item-bytes 1.5", "--item-bytes"),
        ("--hottest-share 1.5", "0 to 1"),
        ("--hottest-share 0.01", "less than 1/10"),
        ("--zipf 11", "0 to 10"),
        ("--zipf 1 --hottest-share 0.5", "cannot be used with"),
        ("--partitions 0", "1..=1000000"),
        ("--memory 64", "128..=10240"),
        ("--latency-ms 0", "0.01 to 60000"),
        ("--mode other", "stream"),
        ("--history-table other", "own"),
        ("--idempotency other", "recent"),
        ("--idempotency-window 0", "1 to 100"),
        ("--prices /nowhere/prices.json", "/nowhere/prices.json"),
    ] {
        let flag = arguments.split([' ', '=']).next().unwrap();
        let others: Vec<_> = valid.into_iter().filter(|valid| !valid.starts_with(flag)).collect();
        let output = vzero(&format!("{} {arguments}", others.join(" ")));
        let stderr = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{arguments}: {stderr}");
        assert!(stderr.contains(reason), "{arguments}: {stderr}");
        assert!(output.stdout.is_empty(), "{arguments}");
    }
    let output = vzero("--entities 10 --item-bytes 500");
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("--updates-per-second"), "{}", stderr(&output));
}

#[test]
fn prices_can_be_printed_and_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("prices.json");
    let flag = format!("--prices {}", path.display());
    let before = plan("1000", "1000", "");

    let list = stdout(&vzero("--print-prices"));
    std::fs::write(&path, &list).unwrap();
    assert_eq!(plan("1000", "1000", &flag), before);
    let mut list: Value = serde_json::from_str(&list).unwrap();
    assert_eq!(list["WriteRequestUnits"]["Date"], "2024-11-01");

    let doubled = json!({"Price": 1.25, "Unit": "1,000,000 write request units", "Date": "2018-11-28"});
    std::fs::write(&path, json!({"WriteRequestUnits": doubled}).to_string()).unwrap();
    let after = plan("1000", "1000", &flag);
    let part = |plan: &Value, part: &str| number(&plan["MonthlyCost"]["Parts"][part]);
    assert!((part(&after, "Writes") - 2.0 * part(&before, "Writes")).abs() < 0.1);
    assert_eq!(part(&after, "Queue").to_bits(), part(&before, "Queue").to_bits());

    std::fs::write(
        &path,
        r#"{"Coffee": {"Price": 3, "Unit": "cup", "Date": "2024-11-01"}}"#,
    )
    .unwrap();
    let output = vzero(&format!("--updates-per-second 1 --entities 1 --item-bytes 1 {flag}"));
    let stderr = stderr(&output);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr.contains("\"Coffee\" is not a price"), "{stderr}");
    assert_eq!(stderr.lines().count(), 1);

    // A complete list of another Region.
    list["Region"] = json!("eu-west-1");
    std::fs::write(&path, list.to_string()).unwrap();
    assert_eq!(plan("1000", "1000", &flag)["MonthlyCost"]["Region"], "eu-west-1");
}

#[test]
fn every_member_is_documented() {
    let document = file("docs/vzero.md");
    let from = document.find("## Plan").unwrap();
    let section = &document[from..];
    let section = &section[..section[4..].find("\n## ").map_or(section.len(), |end| end + 4)];
    let Value::Object(members) = plan("2000", "1000", "--hottest-share 0.9 --history-table own") else {
        panic!("not an object");
    };
    for (name, value) in &members {
        assert!(section.contains(&format!("`{name}`")), "{name} is not documented");
        let inner = match value {
            Value::Object(inner) => inner.keys().collect(),
            Value::Array(limits) => limits[0].as_object().unwrap().keys().collect(),
            _ => Vec::new(),
        };
        for name in inner {
            assert!(section.contains(&format!("`{name}`")), "{name} is not documented");
        }
    }
}
