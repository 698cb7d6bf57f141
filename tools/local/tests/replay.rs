//! The example `replay_mapping` as a process.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the message")]

use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
};

use serde_json::{Value, json};

/// Builds the example, which `cargo test --test` does not.
fn program() -> PathBuf {
    let folder = Path::new(env!("CARGO_BIN_EXE_local")).parent().unwrap();
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "-p", "local", "--example", "replay_mapping"]);
    if folder.ends_with("release") {
        cargo.arg("--release");
    }
    let program = folder.join("examples/replay_mapping");
    assert!(program.exists() || cargo.status().unwrap().success());
    program
}

fn run(scenario: &str) -> Output {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&file, scenario).unwrap();
    Command::new(program()).arg(file.path()).output().unwrap()
}

fn replay(scenario: &Value) -> Value {
    let output = run(&scenario.to_string());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stderr.is_empty());
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn the_output_is_what_the_mapping_did() {
    let scenario = json!({
        "settings": {
            "BatchSize": 4, "BisectBatchOnFunctionError": true, "MaximumRetryAttempts": 1, "ReportBatchItemFailures": true,
        },
        "records": [{}, {"bad": true}, {}, {}],
        "function": "raise",
        "destination": "s3",
    });
    let invocation = |records: &[usize], request: &str, outcome: &str| json!({"records": records, "request": request, "outcome": outcome});
    let expected = json!({
        "invocations": [
            invocation(&[0, 1, 2, 3], "a", "function error"),
            invocation(&[0, 1], "b", "function error"),
            invocation(&[0], "c", "success"),
            invocation(&[1], "d", "function error"),
            invocation(&[1], "d", "function error"),
            invocation(&[2, 3], "e", "success"),
        ],
        "documents": [{
            "records": [1], "condition": "RetryAttemptsExhausted", "approximateInvokeCount": 2, "request": "d",
            "payload": "string",
        }],
        "dropped": 0,
    });
    assert_eq!(replay(&scenario), expected);
    for (destination, documents, dropped) in [("sqs", 1, 0), ("denied", 0, 1), ("", 0, 1)] {
        let mut scenario = scenario.clone();
        scenario["destination"] = Some(destination).filter(|name| !name.is_empty()).into();
        let replayed = replay(&scenario);
        let written = replayed["documents"].as_array().unwrap();
        assert_eq!(
            (written.len(), replayed["dropped"].as_u64()),
            (documents, Some(dropped)),
            "{destination}"
        );
        assert!(written.iter().all(|document| document["payload"].is_null()));
        assert_eq!(replayed["invocations"], expected["invocations"]);
    }
}

#[test]
fn without_report_batch_item_failures_responses_are_ignored() {
    for function in ["partial", "empty-identifier"] {
        let scenario = json!({"records": [{}, {"bad": true}], "function": function});
        let success = json!([{"records": [0, 1], "request": "a", "outcome": "success"}]);
        assert_eq!(replay(&scenario)["invocations"], success);
        let settings = json!({"FunctionResponseTypes": ["ReportBatchItemFailures"], "MaximumRetryAttempts": 0});
        let scenario = json!({"records": [{"bad": true}], "function": function, "settings": settings});
        let outcome = match function {
            "partial" => "batch item failures",
            _ => "invalid response",
        };
        assert_eq!(replay(&scenario)["invocations"][0]["outcome"], outcome);
    }
}

#[test]
fn each_invalid_scenario_is_one_line_and_exit_code_2() {
    for (scenario, error) in [
        ("{", "EOF"),
        (
            r#"{"records": [], "function": "raise", "other": 1}"#,
            "unknown field `other`",
        ),
        (
            r#"{"records": [{"worse": true}], "function": "raise"}"#,
            "unknown field `worse`",
        ),
        (r#"{"records": [], "function": "throw"}"#, "unknown variant `throw`"),
        (
            r#"{"records": [], "function": "raise", "destination": "sns"}"#,
            "unknown variant `sns`",
        ),
        (
            r#"{"records": [], "function": "raise", "settings": {"Size": 1}}"#,
            "unknown field `Size`",
        ),
        (
            r#"{"records": [], "function": "raise", "settings": {"BatchSize": "1"}}"#,
            "invalid type: string",
        ),
        (
            r#"{"records": [], "function": "raise", "settings": {"BatchSize": 0}}"#,
            "BatchSize is outside Lambda's bounds",
        ),
        (
            r#"{"records": [], "function": "raise", "settings": {"MaximumRetryAttempts": -2}}"#,
            "MaximumRetryAttempts is outside Lambda's bounds",
        ),
        // A bad record with unlimited retries and age.
        (r#"{"records": [{"bad": true}], "function": "raise"}"#, "24 hours"),
    ] {
        let output = run(scenario);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{scenario}: {stderr}");
        assert!(
            stderr.starts_with("error: ") && stderr.trim_end().lines().count() == 1,
            "{stderr}"
        );
        assert!(stderr.contains(error), "{scenario}: {stderr}");
        assert!(output.stdout.is_empty());
    }
    let missing = Command::new(program()).arg("/no/such/file").output().unwrap();
    assert_eq!(missing.status.code(), Some(2));
    let help = Command::new(program()).arg("--help").output().unwrap();
    assert!(help.status.success() && String::from_utf8_lossy(&help.stdout).contains("Example:"));
}
