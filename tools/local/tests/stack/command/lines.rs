//! Progress lines of the command.

use std::collections::BTreeMap;

use serde_json::json;

use crate::{
    command::broken,
    serving::{put, serve},
};

pub(crate) fn figures<'a>(stdout: &'a str, kind: &str) -> Vec<BTreeMap<&'a str, &'a str>> {
    let lines = stdout.lines().filter_map(|line| line.strip_prefix(kind));
    let pairs = |line: &'a str| line.trim().split(' ').map(|pair| pair.split_once('=').unwrap());
    lines.map(|line| pairs(line).collect()).collect()
}

#[test]
fn the_lines_count_retries_and_failures() {
    let folder = tempfile::tempdir().unwrap();
    let failed = folder.path().join("failed").to_string_lossy().into_owned();
    let stack = serve(&["--feed", "/dev/null", "--failed", &failed]);
    stack.write(&json!({"ID": "Taken#1"}));
    put(
        &stack,
        &json!({"PK": {"S": "Taken#1"}, "SK": {"S": "v2"}, "State": {"S": "by hand"}}),
    );
    stack.write(&json!({"ID": "Taken#1"}));
    let line = stack.until(|line| line.starts_with("status ") && line.contains(" quarantined=1"));
    let last = figures(&line, "status ").remove(0);
    for (name, count) in [
        ("updates", "2"),
        ("versions", "1"),
        ("waiting", "0"),
        ("retries", "0"),
        ("failures", "0"),
    ] {
        assert_eq!(last[name], count, "{name} of {line}");
    }
    drop(stack);
    // A function that does not start.
    let broken = broken(folder.path(), 10);
    let arguments = [
        &["--feed", "/dev/null", "--failed", &failed],
        &broken.each_ref().map(String::as_str)[..],
    ]
    .concat();
    let stack = serve(&arguments);
    stack.write(&json!({"ID": "E#1"}));
    let line = stack.until(|line| line.starts_with("status ") && line.contains(" failures=1"));
    let last = figures(&line, "status ").remove(0);
    for (name, count) in [("updates", "1"), ("versions", "0"), ("waiting", "0")] {
        assert_eq!(last[name], count, "{name} of {line}");
    }
    assert!(last["retries"].parse::<u64>().unwrap() >= 10, "{line}");
}

#[test]
fn the_command_prints_addresses_items_commands_and_what_happens() {
    let stack = serve(&[]);
    let lines = |end: &str| {
        let mut printed = String::new();
        loop {
            let line = stack.until(|_| true);
            printed.push_str(&line);
            printed.push('\n');
            if line.starts_with(end) {
                return printed;
            }
        }
    };
    let printed = lines("Serving until Ctrl-C. ") + &lines("  http://");
    for (start, times) in [
        ("failures  ", 1),
        ("logs      ", 1),
        ("console   http://", 1),
        ("Press#12", 1),
        ("  v4  State: ", 1),
        ("  curl http://", 1),
        ("  cargo run -p vzero -- ", 1),
        ("error ", 0),
    ] {
        let found = printed.lines().filter(|line| line.starts_with(start)).count();
        assert_eq!(found, times, "{start} in {printed}");
    }
    stack.write(&json!({"ID": "Seen#1", "ExpectedVersion": 7}));
    stack.until(|line| {
        line.starts_with("status updates=9 refused=1 versions=8 ") && line.ends_with(" VersionConflict=1")
    });
    stack.until(|line| line == "error writer-fn: VersionConflict: expected version 7, but the latest is 0");
}
