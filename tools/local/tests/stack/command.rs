//! The command `local`, which embeds a DynamoDB: with another one, skip these tests.

mod access;
mod attach;
mod lines;
mod permissions;

use std::{io::Write as _, net::TcpListener, path::Path, process::Stdio};

use serde_json::json;
use testkit::{cases::patched, serving::Serving};

use crate::{
    serving::{fails, put, run, serve, serve_with, succeeds, text},
    support::{documents, root, versions},
};

pub(crate) fn file(folder: &Path, name: &str, content: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, content).unwrap();
    path.to_string_lossy().into_owned()
}

/// Option of a stack whose stream-fn does not start.
pub(crate) const BROKEN: [&str; 2] = ["--bootstrap", "stream-fn=/bin/false"];

/// Returns a template whose mapping retries this many times, instead of until a record is 12 h old.
pub(crate) fn template(folder: &Path, retries: u32) -> String {
    let template = std::fs::read_to_string(root().join("template.yaml")).unwrap();
    let (before, after) = template.split_once("MaximumRetryAttempts: -1").unwrap();
    file(
        folder,
        "template.yaml",
        &format!("{before}MaximumRetryAttempts: {retries}{after}"),
    )
}

/// Writes two versions of `Taken#1`, of which another client has put the second one.
pub(crate) fn take_version(stack: &Serving) {
    stack.write(&json!({"ID": "Taken#1"}));
    let item = json!({"PK": {"S": "Taken#1"}, "SK": {"S": "v2"}, "State": {"S": "by hand"}});
    put(stack, &item);
    stack.write(&json!({"ID": "Taken#1"}));
}

/// Writes a program, and returns its path.
pub(crate) fn executable(folder: &Path, name: &str, script: &str) -> String {
    use std::os::unix::fs::PermissionsExt as _;

    let path = file(folder, name, script);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// A feed of many entities, with attributes of all types.
fn feed(updates: usize, entities: usize) -> String {
    let numbers = [
        "12345678901234567890123456789012345678",
        "-0.00012345678901234567890123456789012345678",
        "1E5",
        "0.10",
    ];
    let line = |n: usize| {
        let number = numbers[n % numbers.len()];
        let entity = (n * n + 7 * n) % entities;
        format!(
            r#"{{"ID": "Entity#{entity}", "Number": {number}, "n": {n}, "Text": "é\u0000\"", "Empty": "", "List": [{number}, null, {{"a": []}}], "Odd{}": true}}"#,
            n % 3
        )
    };
    (0..updates).map(|n| line(n) + "\n").collect()
}

#[test]
fn once_feeds_waits_and_dumps() {
    let folder = tempfile::tempdir().unwrap();
    let updates = feed(300, 20) + "{\"ID\": \"Entity#21\", \"ExpectedVersion\": 7}\n";
    let feed = file(folder.path(), "feed.jsonl", &updates);
    let dump = folder.path().join("dump.jsonl");
    let stdout = succeeds(&["--once", "--feed", &feed, "--dump", &dump.to_string_lossy()]);
    let items = std::fs::read_to_string(dump).unwrap();
    assert_eq!(versions(&items).values().sum::<usize>(), 300);
    for digits in [
        "12345678901234567890123456789012345678",
        "-0.00012345678901234567890123456789012345678",
    ] {
        assert!(items.contains(&format!(r#""Number":{{"N":"{digits}"}}"#)), "{digits}");
    }
    assert!(stdout.contains("Entity#0") && !stdout.contains('\u{1b}'), "{stdout:?}");
    // The figures are machine-readable lines.
    let summary = stdout.lines().last().unwrap();
    let expected = "updates=301 refused=1 versions=300 waiting=0 retries=0 bisections=0 failures=0";
    lines::check(summary, "summary ", expected);
    let batches: u64 = lines::figures(summary, "summary ")[0]["batches"].parse().unwrap();
    assert!(batches >= 1, "{stdout}");
    let counts = lines::figures(&stdout, "status ");
    assert!(counts.windows(2).all(|two| two[0] != two[1]), "{stdout}");
}

#[test]
fn without_a_feed_the_sample_is_sent_and_the_mapping_can_start_late() {
    let began = std::time::Instant::now();
    assert!(succeeds(&["--once", "--mapping-startup", "1"]).contains("Press#12"));
    assert!(began.elapsed().as_secs() >= 1);
}

#[test]
fn a_piped_feed_is_sent_as_it_comes() {
    let mut stack = serve_with(&["--feed", "-"], Stdio::piped(), Stdio::null());
    let mut pipe = stack.child.stdin.take().unwrap();
    for version in 1..=3 {
        writeln!(pipe, r#"{{"ID": "Piped#1", "RequestId": "r{version}"}}"#).unwrap();
        // Before the pipe is closed.
        stack.until(|line| line.starts_with(&format!("status updates={version} refused=0 versions={version} ")));
    }
}

#[test]
fn each_error_is_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, content: &str| file(folder.path(), name, content);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    file("bad.jsonl", "{\"ID\": \"a\"}\nnonsense\n");
    file("reserved.jsonl", "{\"ID\": \"a\"}\n{\"ID\": \"b\", \"PK\": 1}\n");
    file("bad.yaml", "Resources: [");
    for (name, place, value) in [
        ("no-type.json", "/AttributeDefinitions/1/AttributeName", json!("other")),
        ("filter.json", "/Filter", json!({"customerId": [{"suffixx": "c"}]})),
    ] {
        let definition = patched(attach::definition(), &json!([place, value]));
        file(name, &definition.to_string());
    }
    file("no-table.yaml", "Resources: {}");
    for line in "--dynamodb-port PORT -> port PORT is in use
        --lambda-port PORT -> port PORT is in use
        --feed HERE/bad.jsonl -> line 2 of the feed is bad: it is not JSON
        --once --feed HERE/reserved.jsonl -> line 2 of the feed is bad: the event is invalid: PK is reserved
        --feed /no/such/feed -> /no/such/feed cannot be read
        --template HERE/bad.yaml -> it is not YAML
        --template HERE/no-table.yaml -> it does not have exactly one event of type DynamoDB
        --template /no/such/template -> cannot run the template /no/such/template
        --parameter VersionDigits=99 -> the parameter VersionDigits does not allow 99
        --parameter HistoryCompression=deflate -> HistoryCompression=deflate requires HistoryTable=own
        --data-dir HERE/bad.yaml -> cannot be used
        --once --attach HERE/bad.yaml -> it is not JSON: line 1, column 1
        --once --attach HERE/filter.json -> Filter is invalid
        --once --attach HERE/no-type.json -> AttributeDefinitions has no type of the key attribute orderNo
        --once --attach missing.json -> missing.json cannot be read
        --bootstrap no-fn=/bin/sh -> the template has no function no-fn
        --bootstrap writer-fn=/no/such/file -> there is no bootstrap /no/such/file
        --bootstrap writer-fn -> an equals sign is missing
        --once --feed /dev/null --dump /no/such/folder/dump -> /no/such/folder/dump cannot be written"
        .lines()
    {
        let line = line
            .replace("PORT", &port)
            .replace("HERE", &folder.path().to_string_lossy());
        let (arguments, message) = line.trim().split_once(" -> ").unwrap();
        let output = run(&arguments.split(' ').collect::<Vec<_>>());
        let stderr = text(&output.stderr);
        assert_ne!(output.status.code(), Some(0), "{arguments}");
        assert!(stderr.contains(message), "{arguments}: {stderr}");
        let errors = stderr.lines().filter(|line| line.starts_with("error: "));
        assert_eq!(errors.count(), 1, "{stderr}");
    }
}

#[test]
fn once_lists_missing_versions_at_the_timeout() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().to_string_lossy().into_owned();
    let mut stack = serve(&["--data-dir", &data, "--feed", "/dev/null"]);
    put(&stack, &json!({"PK": {"S": "Poison#1"}, "SK": {"S": "v0"}}));
    take_version(&stack);
    stack.write(&json!({"ID": "Good#1"}));
    stack.kill();
    let stderr = fails(&["--data-dir", &data, "--once", "--timeout", "10"]);
    for line in [
        "the history of Poison#1 is not complete: v0 makes no version: Latest is missing",
        "the history of Taken#1 is not complete: v2 differs from v0",
    ] {
        assert!(stderr.contains(line), "{stderr}");
    }
    assert!(!stderr.contains("Good#1"), "{stderr}");
    // Records are retried for 12 h before they move to a failure document.
    assert!(documents(&folder.path().join("failed")).is_empty());
}

#[test]
fn once_reports_dropped_records() {
    let folder = tempfile::tempdir().unwrap();
    let updates = file(folder.path(), "feed.jsonl", r#"{"ID": "E#1", "Secret": "attribute"}"#);
    // A function that does not start, and a destination that is a file.
    let data = folder.path().join("data");
    std::fs::create_dir(&data).unwrap();
    file(&data, "failed", "");
    let (data, template) = (data.to_string_lossy(), template(folder.path(), 0));
    let once = [
        "--once",
        "--timeout",
        "5",
        "--feed",
        &updates,
        "--data-dir",
        &data,
        "--template",
        &template,
    ];
    let output = run(&[&once[..], &BROKEN].concat());
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    let mut lines = stderr.lines();
    let dropped = lines.find(|line| line.starts_with("error: 1 record(s) of ")).unwrap();
    let cause = " were dropped, because their failure document cannot be stored: ";
    assert!(dropped.contains(cause), "{stderr}");
    let summary = "error: 1 record(s) were dropped, and are in no failure document";
    assert!(lines.any(|line| line == summary), "{stderr}");
    assert!(
        !stderr.contains("attribute") && !stderr.contains("failure document(s)"),
        "{stderr}"
    );
    let summary = stdout.lines().last().unwrap();
    assert!(
        summary.contains(" failures=0 dropped=1 result=FunctionCallFailed"),
        "{summary}"
    );
}

#[test]
fn a_killed_stack_keeps_every_acknowledged_update() {
    for history in ["HistoryTable=same", "HistoryTable=own"] {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data").to_string_lossy().into_owned();
        let feed = file(folder.path(), "feed.jsonl", &feed(500, 25));
        let mut acknowledged = 0;
        for _ in 0..2 {
            let mut stack = serve(&["--data-dir", &data, "--feed", &feed, "--parameter", history]);
            // While the feed is sent, the test sends updates whose responses it keeps.
            for _ in 0..40 {
                // On a slow machine, writer-fn sends a request again, and finds its first attempt.
                let outcome = stack.write(&json!({"ID": "Ours#1"}))["Outcome"].clone();
                assert!(outcome == "Written" || outcome == "Duplicate", "{outcome}");
                acknowledged += 1;
            }
            stack.kill();
        }
        let dump = folder.path().join("dump.jsonl").to_string_lossy().into_owned();
        succeeds(&["--once", "--data-dir", &data, "--dump", &dump, "--parameter", history]);
        let versions = versions(&std::fs::read_to_string(dump).unwrap());
        assert_eq!(versions["Ours#1"], acknowledged);
        assert!(versions.len() > 1, "the feed was under way");
    }
}

#[test]
fn a_data_folder_has_one_stack_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().to_string_lossy().into_owned();
    let stack = serve(&["--data-dir", &data]);
    let stderr = fails(&["--once", "--data-dir", &data]);
    assert!(stderr.contains("is in use by another stack"), "{stderr}");
    drop(stack);
}
