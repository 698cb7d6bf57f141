//! Progress lines of the command.

use std::collections::BTreeMap;

use serde_json::json;

use crate::{
    command::{BROKEN, take_version, template},
    serving::serve,
};

/// Checks the figures of a line, such as `updates=2 versions=1`.
pub(crate) fn check(line: &str, kind: &str, expected: &str) {
    let found = figures(line, kind).remove(0);
    for (name, value) in expected.split(' ').map(|pair| pair.split_once('=').unwrap()) {
        assert_eq!(found[name], value, "{name} of {line}");
    }
}

pub(crate) fn figures<'a>(stdout: &'a str, kind: &str) -> Vec<BTreeMap<&'a str, &'a str>> {
    let lines = stdout.lines().filter_map(|line| line.strip_prefix(kind));
    let pairs = |line: &'a str| line.trim().split(' ').map(|pair| pair.split_once('=').unwrap());
    lines.map(|line| pairs(line).collect()).collect()
}

#[test]
fn the_lines_count_retries_and_failures() {
    let folder = tempfile::tempdir().unwrap();
    let stack = serve(&["--feed", "/dev/null"]);
    take_version(&stack);
    let line = stack.until(|line| line.starts_with("status ") && line.contains(" quarantined=1"));
    check(&line, "status ", "updates=2 versions=1 waiting=0 retries=0 failures=0");
    drop(stack);
    // A function that does not start.
    let template = template(folder.path(), 10);
    let stack = serve(&[&["--feed", "/dev/null", "--template", &template], &BROKEN[..]].concat());
    stack.write(&json!({"ID": "E#1"}));
    let line = stack.until(|line| line.starts_with("status ") && line.contains(" failures=1"));
    check(&line, "status ", "updates=1 versions=0 waiting=0");
    let retries: u64 = figures(&line, "status ")[0]["retries"].parse().unwrap();
    assert!(retries >= 10, "{line}");
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
        ("Press#12  4 version(s)", 1),
        ("  curl http://", 1),
        ("  cargo run -p vzero -- ", 1),
        ("error ", 0),
    ] {
        let found = printed.lines().filter(|line| line.starts_with(start)).count();
        assert_eq!(found, times, "{start} in {printed}");
    }
    stack.write(&json!({"ID": "Seen#1", "ExpectedVersion": 7}));
    stack.until(|line| line.starts_with("status updates=9 refused=1 versions=8 "));
    stack.until(|line| line == "error writer-fn: VersionConflict: expected version 7, but the latest is 0");
}
