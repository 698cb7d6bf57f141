//! `vzero attach`: on the embedded DynamoDB, and on an endpoint that describes other tables.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the message")]

mod measured;

use std::process::Command;

use aws_sdk_dynamodb::types::{ScalarAttributeType, StreamViewType};
use serde_json::{Value, json};
use testkit::{command::Arguments as _, database::create_streamed, endpoint::is_skipped, script_tests, table::Table};

script_tests! {
    Table;
    fn each_view_type_has_its_exit_code_and_the_next_step();
    fn a_stream_is_enabled_only_if_there_is_none();
    fn the_text_can_be_copied();
    fn wrong_arguments_of_attach_are_usage_errors();
}

#[test]
fn hostile_names_are_passed_as_they_are() {
    if is_skipped("tables of other programs") {
        return;
    }
    let table = Table::new(env!("CARGO_BIN_EXE_vzero"));
    let key = "it's \"the\" $(id) `x`";
    let keys = [(key, ScalarAttributeType::S), ("no", ScalarAttributeType::N)];
    let created = create_streamed(&table.client, "Orders", &keys, StreamViewType::NewAndOldImages);
    table.block_on(created).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a file.json");
    let mut options = "attach Orders --ignore a,b --history-table Log --updates-per-second 10 --ignore".words();
    let filter = r#"{"it's": ["a \"b\"", "$HOME"]}"#;
    let path = path.to_str().unwrap();
    let more = [
        "it's",
        "--version-attribute",
        "my \"rev\"",
        "--actor-attribute",
        "it's",
        "--filter",
        filter,
        "--write",
        path,
    ];
    options.extend(more.map(str::to_owned));
    let report = table.json(&options, 0);
    let definition = std::fs::read_to_string(path).unwrap();
    assert_eq!(
        serde_json::from_str::<Value>(&definition).unwrap(),
        report["Definition"]
    );
    let attached = attach::parse(&definition).unwrap();
    assert_eq!((attached.table(), attached.history_table()), ("Orders", "Log"));
    assert_eq!(
        attached.keys().map(|key| key.name.as_str()).collect::<Vec<_>>(),
        [key, "no"]
    );
    assert_eq!(
        (
            attached.version_attribute(),
            attached.settings().actor_attribute.as_deref()
        ),
        (Some("my \"rev\""), Some("it's"))
    );
    assert_eq!(attached.ignored().iter().collect::<Vec<_>>(), ["a,b", "it's"]);
    // The shell passes each word unchanged; the unit tests of the command read them as the SAM CLI does.
    let command = report["Deploy"][1].as_str().unwrap();
    let script = format!("sam() {{ printf '%s\\n' \"$@\"; }}; {command}");
    let shell = Command::new("sh")
        .env("HOME", "home")
        .args(["-c", &script])
        .output()
        .unwrap();
    let words = String::from_utf8(shell.stdout).unwrap();
    for word in [
        "HistoryTableName=Log",
        r#"VersionAttribute="my \"rev\"""#,
        r#"ActorAttribute="it's""#,
        r#"IgnoreAttributes="[\"a,b\",\"it's\"]""#,
        r#"Filter="{\"dynamodb\":{\"$or\":[{\"NewImage\":{\"it's\":{\"S\":[\"a \u0022b\u0022\",\"$HOME\"]}}},{\"OldImage\":{\"it's\":{\"S\":[\"a \u0022b\u0022\",\"$HOME\"]}}}]}}""#,
    ] {
        assert!(words.lines().any(|line| line == word), "{word}\n{words}");
    }
    assert_eq!(report["UpdatesPerSecond"], json!(10.0));
    assert!(report["MonthlyCost"]["Total"].as_f64().unwrap() > 10.0, "{report}");
}
