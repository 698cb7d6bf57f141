//! `vzero plan`, compared with the pages that document it.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the message")]

use std::process::{Command, Output};

use serde_json::{Value, json};

/// Runs the command without environment: no credentials, no Region, no table.
fn vzero(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vzero"));
    command.env_clear().arg("plan").args(arguments).output().unwrap()
}

fn planned(arguments: &[&str]) -> Value {
    let output = vzero(arguments);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", stderr(&output));
    let text = stdout(&output);
    assert_eq!(text.lines().count(), 1, "{text}");
    serde_json::from_str(&text).unwrap()
}

/// Plans updates of 500 bytes.
fn plan(rate: &str, entities: &str, more: &[&str]) -> Value {
    let asked = ["--updates-per-second", rate, "--entities", entities];
    let bytes = if more.contains(&"--item-bytes") {
        &[][..]
    } else {
        &["--item-bytes", "500"][..]
    };
    planned(&[&asked, bytes, more].concat())
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

fn file(path: &str) -> String {
    std::fs::read_to_string(format!("{}/../../{path}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

/// Returns the rows of the table whose header starts with `header`.
fn rows(document: &str, header: &str) -> Vec<Vec<String>> {
    let cells = |line: &str| {
        line.trim_matches('|')
            .split('|')
            .map(|cell| cell.trim().to_owned())
            .collect()
    };
    let mut lines = document.lines().skip_while(|line| !line.starts_with(header)).skip(2);
    let rows: Vec<_> = lines
        .by_ref()
        .take_while(|line| line.starts_with('|'))
        .map(cells)
        .collect();
    assert!(!rows.is_empty(), "no table begins with {header}");
    rows
}

/// Formats three significant digits, with commas between thousands.
fn shown(value: &Value) -> String {
    let rounded: f64 = format!("{:.2e}", number(value)).parse().unwrap();
    if rounded < 100.0 {
        return rounded.to_string();
    }
    let digits = format!("{rounded:.0}");
    let groups: Vec<_> = digits
        .as_bytes()
        .rchunks(3)
        .rev()
        .map(|group| str::from_utf8(group).unwrap())
        .collect();
    groups.join(",")
}

fn limits(plan: &Value) -> Vec<String> {
    let limits = plan["Limits"].as_array().unwrap();
    limits
        .iter()
        .map(|limit| limit["Limit"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn the_documented_table_matches_the_command() {
    let document = file("docs/scaling.md");
    let mut expected = Vec::new();
    let documented = rows(&document, "| updates/s |");
    for row in &documented {
        let rate = row[0].replace(',', "");
        let plan = plan(&rate, "1000000", &[]);
        let limits = match limits(&plan) {
            limits if limits.is_empty() => "none".to_owned(),
            limits => limits
                .iter()
                .map(|limit| format!("`{limit}`"))
                .collect::<Vec<_>>()
                .join(", "),
        };
        expected.push(vec![
            row[0].clone(),
            shown(&plan["Table"]["WriteUnitsPerSecond"]),
            shown(&plan["Table"]["Partitions"]),
            shown(&plan["StreamFunction"]["InvocationsPerSecond"]),
            shown(&plan["StreamFunction"]["Concurrency"]),
            shown(&plan["WriterFunction"]["Concurrency"]),
            shown(&plan["Table"]["StorageGrowthGBPerMonth"]),
            shown(&plan["MonthlyCost"]["Total"]),
            limits,
        ]);
    }
    let rates: Vec<_> = documented.iter().map(|row| row[0].as_str()).collect();
    assert_eq!(rates, ["1", "10", "100", "1,000", "10,000", "100,000", "1,000,000"]);
    let lines: Vec<_> = expected.iter().map(|row| format!("| {} |", row.join(" | "))).collect();
    assert_eq!(documented, expected, "it should be\n{}", lines.join("\n"));
}

#[test]
fn the_documented_rates_of_one_entity_match_the_command() {
    let document = file("docs/scaling.md");
    let documented = rows(&document, "| mode | idempotency | write units |");
    assert_eq!(documented.len(), 6);
    for row in documented {
        let mut more = vec!["--mode", row[0].trim_matches('`')];
        let asked = row[1].trim_matches('`');
        let (kind, window) = asked.split_once(", ").unwrap_or((asked, "1"));
        more.extend(["--idempotency", kind]);
        more.extend(["--idempotency-window", window]);
        let plan = plan("1", "1", &more);
        let expected = [
            shown(&plan["Update"]["WriteUnits"]),
            shown(&plan["HottestEntity"]["MostUpdatesPerSecond"]),
        ];
        assert_eq!(row[2..4], expected, "{row:?}");
    }
}

/// Another test measures the numbers of `docs/costs.md`.
#[test]
fn write_units_are_the_measured_ones() {
    let document = file("docs/costs.md");
    for row in rows(&document, "| mode | requests |") {
        let mode = row[0].trim_matches('`');
        if mode == "state" {
            continue;
        }
        let more = [
            "--mode",
            mode,
            "--idempotency-window",
            "1",
            "--no-stream-fn",
            "--item-bytes",
            "900",
        ];
        let update = &plan("1", "1", &more)["Update"];
        assert_eq!(number(&update["WriteUnits"]).to_string(), row[2], "{row:?}");
        assert_eq!(number(&update["ReadUnits"]).to_string(), row[3], "{row:?}");
    }
    for row in rows(&document, "| mode | idempotency |") {
        let (kind, window) = row[1].split_once(", ").unwrap_or((&row[1], "16"));
        let more = [
            "--mode",
            &row[0],
            "--idempotency",
            kind,
            "--idempotency-window",
            window,
            "--no-stream-fn",
        ];
        let planned = number(&plan("1", "1", &more)["Update"]["WriteUnits"]);
        let measured: f64 = row[2].parse().unwrap();
        assert!((planned - measured).abs() < 0.006, "{row:?}: {planned}");
    }
}

/// The defaults of the command are the settings in `template.yaml`.
#[test]
fn it_plans_the_stack_of_the_template() {
    let template = file("template.yaml");
    let after = |place: &str, name: &str| -> String {
        let from = template
            .find(place)
            .unwrap_or_else(|| panic!("{place} is not in the template"));
        let line = template[from..]
            .lines()
            .find_map(|line| line.trim().strip_prefix(name))
            .unwrap();
        line.trim().to_owned()
    };
    let settings = [
        ("--batch-size", after("\n  BatchSize:", "Default:"), "7"),
        (
            "--batching-window",
            after("\n  StreamFunction:", "MaximumBatchingWindowInSeconds:"),
            "3",
        ),
        (
            "--parallelization-factor",
            after("\n  StreamFunction:", "ParallelizationFactor:"),
            "5",
        ),
        ("--queue-batch-size", after("\n        Updates:", "BatchSize:"), "3"),
        (
            "--queue-concurrency",
            after("\n        Updates:", "MaximumConcurrency:"),
            "7",
        ),
        ("--memory", after("\nGlobals:", "MemorySize:"), "512"),
        ("--architecture", after("\n  Architecture:", "Default:"), "x86_64"),
        ("--mode", after("\n  WriteMode:", "Default:"), "inline"),
        ("--idempotency", after("\n  Idempotency:", "Default:"), "ledger"),
        ("--idempotency-window", after("\n  IdempotencyWindow:", "Default:"), "3"),
    ];
    let by_default = plan("200000", "1000", &[]);
    for (flag, value, other) in &settings {
        assert_eq!(plan("200000", "1000", &[flag, value]), by_default, "{flag} {value}");
        assert_ne!(plan("200000", "1000", &[flag, other]), by_default, "{flag} {other}");
    }
}

#[test]
fn an_impossible_plan_names_the_limit_and_the_setting() {
    let asked = ["--hottest-share", "0.5"];
    let plan = plan("2000", "1000", &asked);
    assert_eq!(limits(&plan)[0], "HottestEntity");
    let limit = &plan["Limits"][0];
    assert!((number(&limit["Load"]) - 2111.11).abs() < 0.1, "{limit}");
    assert_eq!(limit["Bound"], json!(1000));
    assert_eq!(limit["Unit"], "write units/s");
    assert!(limit["Turn"].as_str().unwrap().contains("several entities"), "{limit}");
    assert!((number(&plan["HottestEntity"]["MostUpdatesPerSecond"]) - 473.684).abs() < 0.001);

    let arguments = [
        "--updates-per-second",
        "2000",
        "--entities",
        "1000",
        "--item-bytes",
        "500",
        "--output",
        "table",
    ];
    let output = vzero(&[&arguments[..], &asked].concat());
    assert_eq!(output.status.code(), Some(0));
    let text = stdout(&output);
    for said in [
        "HottestEntity, 2,110 of 1,000 write units/s: make several",
        "write units/s",
        "USD a month",
        "GB a month",
    ] {
        assert!(text.contains(said), "{said} is not in\n{text}");
    }
}

#[test]
fn items_that_are_too_large_are_planned_and_listed() {
    let plan = plan("1", "10", &["--item-bytes", "409585"]);
    assert_eq!(limits(&plan), ["ItemSize"]);
    assert!(
        limits(&planned(&[
            "--updates-per-second",
            "1",
            "--entities",
            "10",
            "--item-bytes",
            "1000000000"
        ]))
        .contains(&"ItemSize".to_owned())
    );
}

#[test]
fn the_parts_add_up_to_the_total() {
    for (rate, entities, more) in [
        ("0.001", "1", vec![]),
        (
            "1e9",
            "1000000000000",
            vec![
                "--item-bytes",
                "409600",
                "--mode",
                "transaction",
                "--idempotency",
                "ledger",
            ],
        ),
        (
            "250.5",
            "7",
            vec!["--retention-days", "90", "--mode", "inline", "--architecture", "x86_64"],
        ),
    ] {
        let cost = &plan(rate, entities, &more)["MonthlyCost"];
        let parts: f64 = cost["Parts"].as_object().unwrap().values().map(number).sum();
        let total = number(&cost["Total"]);
        assert!((parts - total).abs() <= total * 1e-4 && total > 0.0, "{cost}");
    }
}

#[test]
fn invalid_input_is_one_line() {
    let good = ["--updates-per-second", "1", "--entities", "10", "--item-bytes", "500"];
    for (flags, said) in [
        (vec!["--updates-per-second", "0"], "0.001 to 1000000000"),
        (vec!["--updates-per-second", "NaN"], "0.001 to 1000000000"),
        (vec!["--updates-per-second", "inf"], "0.001 to 1000000000"),
        (vec!["--updates-per-second=-5"], "0.001 to 1000000000"),
        (vec!["--updates-per-second", "1e10"], "0.001 to 1000000000"),
        (vec!["--entities", "0"], "1..=1000000000000"),
        (vec!["--entities", "1000000000001"], "1..=1000000000000"),
        (vec!["--item-bytes", "0"], "1..=1000000000"),
        (vec!["--item-bytes", "1.5"], "--item-bytes"),
        (vec!["--hottest-share", "1.5"], "0 to 1"),
        (vec!["--hottest-share", "0.01"], "less than 1/10"),
        (vec!["--memory", "64"], "128..=10240"),
        (vec!["--latency-ms", "0"], "0.01 to 60000"),
        (vec!["--mode", "other"], "stream"),
        (vec!["--idempotency", "other"], "recent"),
        (vec!["--idempotency-window", "0"], "1 to 100"),
        (vec!["--prices", "/nowhere/prices.json"], "/nowhere/prices.json"),
    ] {
        let kept = good
            .chunks(2)
            .filter(|pair| !flags[0].starts_with(pair[0]))
            .flatten()
            .copied();
        let output = vzero(&kept.chain(flags.iter().copied()).collect::<Vec<_>>());
        let stderr = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{flags:?}: {stderr}");
        assert!(stderr.contains(said), "{flags:?}: {stderr}");
        assert!(output.stdout.is_empty(), "{flags:?}");
    }
    let output = vzero(&["--entities", "10", "--item-bytes", "500"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("--updates-per-second"), "{}", stderr(&output));
}

#[test]
fn prices_are_shown_and_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("prices.json");
    let path = path.to_str().unwrap();
    let before = plan("1000", "1000", &[]);

    // The printed price list is valid input.
    let list = stdout(&vzero(&["--print-prices"]));
    std::fs::write(path, &list).unwrap();
    assert_eq!(plan("1000", "1000", &["--prices", path]), before);
    let mut list: Value = serde_json::from_str(&list).unwrap();
    assert_eq!(list["WriteRequestUnits"]["Date"], "2024-11-01");

    let twice =
        json!({"WriteRequestUnits": {"Price": 1.25, "Unit": "1,000,000 write request units", "Date": "2018-11-28"}});
    std::fs::write(path, twice.to_string()).unwrap();
    let after = plan("1000", "1000", &["--prices", path]);
    let writes = |plan: &Value| number(&plan["MonthlyCost"]["Parts"]["Writes"]);
    assert!((writes(&after) - 2.0 * writes(&before)).abs() < 0.1);
    assert_eq!(
        after["MonthlyCost"]["Parts"]["Queue"],
        before["MonthlyCost"]["Parts"]["Queue"]
    );

    std::fs::write(path, r#"{"Coffee": {"Price": 3, "Unit": "cup", "Date": "2024-11-01"}}"#).unwrap();
    let arguments = [
        "--updates-per-second",
        "1",
        "--entities",
        "1",
        "--item-bytes",
        "1",
        "--prices",
        path,
    ];
    let output = vzero(&arguments);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("\"Coffee\" is no price"),
        "{}",
        stderr(&output)
    );
    assert_eq!(stderr(&output).lines().count(), 1);

    // A complete list of another Region.
    list["Region"] = json!("eu-west-1");
    std::fs::write(path, list.to_string()).unwrap();
    assert_eq!(
        plan("1000", "1000", &["--prices", path])["MonthlyCost"]["Region"],
        "eu-west-1"
    );
}

#[test]
fn the_documented_members_match_the_output() {
    let document = file("docs/vzero.md");
    let from = document.find("## Plan").unwrap();
    let section = &document[from..];
    let section = &section[..section[4..].find("\n## ").map_or(section.len(), |end| end + 4)];
    let Value::Object(members) = plan("2000", "1000", &["--hottest-share", "0.5"]) else {
        panic!("no object");
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
