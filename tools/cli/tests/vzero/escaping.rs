//! Keys, attributes, arguments and file names with control characters: none of these characters reaches standard output or
//! standard error, on a terminal or elsewhere.

use std::fs;

use serde_json::{Value, json};
use shared::printable;
use tempfile::TempDir;
use testkit::{command::Run, table::Table};

use crate::terminal;

/// Sets the title of the terminal, clears it with a C1 control character, reverses the direction of the line, and begins a line.
const HOSTILE: &str = "zq\u{1b}]0;title\u{7}\u{9b}2J\u{7f}\u{85}\u{202e}\u{2066}\u{200b}\nerror: x";
const VISIBLE: &str = r"zq\u{1b}]0;title\u{7}\u{9b}2J\u{7f}\u{85}\u{202e}\u{2066}\u{200b}\nerror: x";

struct World {
    table: Table,
    folder: TempDir,
}

impl World {
    fn new() -> Self {
        let table = crate::new_table();
        let update = |value: &str| {
            json!({
                "ID": HOSTILE, HOSTILE: value, "S": HOSTILE, "L": [HOSTILE, {HOSTILE: HOSTILE}], "Actor": HOSTILE,
                "Reason": HOSTILE, "Time": "2020-01-01T00:00:00",
            })
        };
        table.write(update("a"));
        table.write(update(HOSTILE));
        table.write(update("c"));
        table.delete(HOSTILE, "v2");
        table.put(json!({"PK": {"S": HOSTILE}, "SK": {"S": "Metadata"}, HOSTILE: {"S": HOSTILE}}));
        table.put(json!({"PK": {"S": HOSTILE}, "SK": {"S": "v99"}, HOSTILE: {"SS": [HOSTILE]}}));
        table.put(json!({"PK": {"S": "odd"}, "SK": {"S": "v0"}, "Latest": {"S": HOSTILE}}));
        for key in [HOSTILE, "2020-01-01T00:00:00"] {
            table.put(json!({"PK": {"S": HOSTILE}, "SK": {"S": key}, "A": {"S": HOSTILE}}));
        }
        let image = json!({"PK": {"S": HOSTILE}, "SK": {"S": "v0"}, "Latest": {"N": "7"}, HOSTILE: {"S": HOSTILE}});
        table.quarantine(HOSTILE, "111", HOSTILE, &image);
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        file(HOSTILE, HOSTILE);
        file("states.jsonl", &json!({"ID": HOSTILE, "Time": HOSTILE}).to_string());
        file("document", &table.document(&table.records()).body.to_string());
        Self { table, folder }
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    /// Returns a command line for each kind of output of each command.
    fn commands(&self) -> Vec<Vec<String>> {
        let texts = [
            ("{H}", HOSTILE.to_owned()),
            ("{other}", format!("other {HOSTILE}")),
            ("{missing}", self.path(&format!("missing {HOSTILE}"))),
            ("{file}", self.path(HOSTILE)),
            ("{states}", self.path("states.jsonl")),
            ("{document}", self.path("document")),
            ("{folder}", self.path("")),
        ];
        let word = |word: &str| {
            texts
                .iter()
                .fold(word.to_owned(), |word, (name, text)| word.replace(name, text))
        };
        let commands = COMMANDS.lines().map(|line| line.split(' ').map(word).collect());
        commands.collect()
    }
}

const COMMANDS: &str = include_str!("../scripts/hostile_commands");

fn check(arguments: &[&str], run: &Run) {
    for text in [&run.stdout, &run.stderr] {
        let hidden = text.find(|character| printable::is_hidden(character) && character != '\n');
        assert_eq!(hidden, None, "{arguments:?}: {text:?}");
        // The line feed in the text begins no line.
        assert!(!text.contains("\nerror: x"), "{arguments:?}: {text:?}");
    }
    assert!(!(run.stdout.is_empty() && run.stderr.is_empty()), "{arguments:?}");
}

#[test]
fn no_control_character_reaches_an_output() {
    let world = World::new();
    let mut shown = 0;
    for command in world.commands() {
        for options in ["--output table", "--output json", "--verbose"] {
            let arguments: Vec<_> = command.iter().map(String::as_str).chain(options.split(' ')).collect();
            let run = world.table.run(&arguments);
            check(&arguments, &run);
            shown += usize::from(run.stderr.contains(VISIBLE) || run.stdout.contains(VISIBLE));
            if options == "--output json" && !command.contains(&"--help".to_owned()) {
                assert_eq!(run.lines.len(), run.stdout.lines().count(), "{arguments:?}: {run:?}");
            }
        }
    }
    assert!(shown > 100, "the text is in {shown} outputs");
    // An invalid value of a variable, and one in the help.
    for (variable, arguments) in [("VERSION_DIGITS", ["get", "E"]), ("TABLE_NAME", ["get", "--help"])] {
        let run = world.table.command(&arguments).env(variable, HOSTILE).output().unwrap();
        check(&arguments, &run.into());
    }
}

#[test]
fn json_has_the_value_without_escapes() {
    let world = World::new();
    let version = &world.table.lines(&["get", HOSTILE, "--version", "3"], 0)[0];
    assert_eq!((&version["ID"], &version["Actor"]), (&json!(HOSTILE), &json!(HOSTILE)));
    assert_eq!(version["Attributes"]["L"], json!([HOSTILE, {HOSTILE: HOSTILE}]));
    assert_eq!(version["Attributes"][HOSTILE], "c");
    let lines: Vec<Value> = world.table.lines(&["items", HOSTILE], 0);
    assert!(lines.iter().any(|line| line["SK"] == HOSTILE), "{lines:?}");
}

#[test]
fn a_terminal_receives_only_the_sequences_of_the_command() {
    let world = World::new();
    let (mut questions, mut shown) = (0, 0);
    for arguments in world.commands() {
        // Wide enough for the texts in a table.
        let (_, output) = terminal::run(&world.table, 1000, "cat", &arguments);
        // Colors and the movements of the progress bar.
        let own = |sequence: &str| {
            let end = sequence
                .strip_prefix('[')
                .map(|rest| rest.trim_start_matches(|c: char| c.is_ascii_digit() || ";?".contains(c)));
            end.is_some_and(|end| end.starts_with(|letter: char| "mABCDGJKhl".contains(letter)))
        };
        let foreign = output.split('\u{1b}').skip(1).find(|sequence| !own(sequence));
        assert_eq!(foreign, None, "{arguments:?}: {output:?}");
        let rest = output.replace(['\u{1b}', '\r', '\n'], "");
        assert!(!rest.contains(printable::is_hidden), "{arguments:?}: {output:?}");
        shown += usize::from(output.contains(VISIBLE));
        questions += usize::from(output.contains("[y/N]") || output.contains("type the ID"));
    }
    assert_eq!(questions, 3, "purge, repair and backfill ask");
    assert!(shown > 40, "the text is in {shown} outputs");
}
