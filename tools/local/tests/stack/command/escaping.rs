//! Keys, attributes, arguments and file names with control characters do not reach the terminal of the command `local`.

use serde_json::json;
use shared::printable;

use crate::{
    command::file,
    serving::{run, text},
};

/// Sets the title of the terminal, clears it with a C1 control character, reverses the direction of the line, and begins a line.
const HOSTILE: &str = "zq\u{1b}]0;title\u{7}\u{9b}2J\u{7f}\u{85}\u{202e}\u{2066}\nerror: x";
const VISIBLE: &str = r"zq\u{1b}]0;title\u{7}\u{9b}2J\u{7f}\u{85}\u{202e}\u{2066}\nerror: x";

fn feed() -> String {
    let update = json!({"ID": HOSTILE, HOSTILE: HOSTILE, "L": [HOSTILE, {HOSTILE: HOSTILE}], "Actor": HOSTILE, "Reason": HOSTILE});
    let conflict = json!({"ID": HOSTILE, "ExpectedVersion": 77});
    format!("{update}\n{conflict}\n")
}

fn check(arguments: &[&str]) -> String {
    let output = run(arguments);
    let both = [text(&output.stdout), text(&output.stderr)].concat();
    let hidden = both.find(|character| printable::is_hidden(character) && character != '\n');
    assert_eq!(hidden, None, "{arguments:?}: {both:?}");
    assert!(
        !both.contains("\nerror: x") && !both.is_empty(),
        "{arguments:?}: {both:?}"
    );
    both
}

#[test]
fn no_control_character_reaches_an_output() {
    let folder = tempfile::tempdir().unwrap();
    let hostile_name = file(folder.path(), HOSTILE, &feed());
    let shown = check(&["--once", "--feed", &hostile_name]);
    assert!(
        shown.contains(r"zq\u{1b}") && shown.contains("summary updates=2"),
        "{shown}"
    );
    // Each of these is an error that repeats the text.
    let invalid = file(
        folder.path(),
        "invalid.jsonl",
        &json!({"ID": "E", HOSTILE: {"": 1}}).to_string(),
    );
    let nested = file(folder.path(), "template.yaml", HOSTILE);
    let dump = format!("{hostile_name}/dump");
    for arguments in [
        ["--once", "--feed", &format!("{HOSTILE}/missing")].as_slice(),
        &["--once", "--feed", &invalid],
        &["--once", "--template", HOSTILE],
        &["--once", "--template", &nested],
        &["--once", "--dump", &dump],
        &["--once", "--data-dir", &hostile_name],
        &["--once", "--parameter", &format!("{HOSTILE}={HOSTILE}")],
        &["--once", "--parameter", HOSTILE],
        &["--once", "--timeout", HOSTILE],
        &["--once", "--bootstrap", HOSTILE],
        &[HOSTILE],
        &[&format!("--{HOSTILE}")],
    ] {
        let both = check(arguments);
        let is_repeated = [VISIBLE, "line 1 of the feed is bad", "template.yaml"]
            .iter()
            .any(|text| both.contains(text));
        assert!(is_repeated, "{arguments:?}: {both}");
    }
}
