//! `vzero attach`: on the embedded DynamoDB, and on an endpoint that describes other tables.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the message")]

mod check;
mod measured;

use std::process::Command;

use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType, StreamSpecification,
    StreamViewType,
};
use serde_json::{Value, json};
use testkit::{command::Arguments, endpoint::is_skipped, table::Table};

const STREAM: &str = "2026-11-22T06:24:48.123";

fn open(test: &str) -> Option<Table> {
    (!is_skipped(test, "tables of other programs")).then(|| Table::new(env!("CARGO_BIN_EXE_vzero")))
}

/// Creates a table with this partition key, the sort key `no`, and a stream of this view type.
fn create(table: &Table, name: &str, key: &str, view: Option<StreamViewType>) {
    let definition = |name: &str, kind| {
        AttributeDefinition::builder()
            .attribute_name(name)
            .attribute_type(kind)
            .build()
    };
    let element = |name: &str, kind| KeySchemaElement::builder().attribute_name(name).key_type(kind).build();
    let stream = view.map(|view| {
        let stream = StreamSpecification::builder()
            .stream_enabled(true)
            .stream_view_type(view);
        stream.build().unwrap()
    });
    let request = table
        .client
        .create_table()
        .table_name(name)
        .billing_mode(BillingMode::PayPerRequest)
        .attribute_definitions(definition(key, ScalarAttributeType::S).unwrap())
        .attribute_definitions(definition("no", ScalarAttributeType::N).unwrap())
        .key_schema(element(key, KeyType::Hash).unwrap())
        .key_schema(element("no", KeyType::Range).unwrap())
        .set_stream_specification(stream);
    table.runtime.block_on(request.send()).unwrap();
}

fn view_of(table: &Table, name: &str) -> Option<StreamViewType> {
    let described = table
        .runtime
        .block_on(table.client.describe_table().table_name(name).send());
    let stream = described.unwrap().table.unwrap().stream_specification;
    stream.and_then(|stream| stream.stream_view_type)
}

fn contains(list: &Value, text: &str) -> bool {
    list.as_array()
        .unwrap()
        .iter()
        .any(|line| line.as_str().unwrap().contains(text))
}

#[test]
fn each_view_type_has_its_exit_code_and_the_next_step() {
    let Some(table) = open("each_view_type_has_its_exit_code_and_the_next_step") else {
        return;
    };
    for (name, code, required, note) in [
        ("NEW_AND_OLD_IMAGES", 0, "", "gets its first version, a baseline"),
        ("NEW_IMAGE", 0, "", "a missing record is not noticed"),
        (
            "KEYS_ONLY",
            4,
            "the view type KEYS_ONLY, without new images",
            "two readers",
        ),
        ("OLD_IMAGE", 4, "stays readable for 24 hours", "two readers"),
        (
            "None",
            4,
            "enable one with --enable-stream",
            "the write rate is not known",
        ),
    ] {
        let view = (name != "None").then(|| StreamViewType::from(name));
        create(&table, name, "id", view.clone());
        let run = table.run(&format!("attach {name}"));
        let report = run.json();
        assert_eq!(run.code, code, "{name}: {run:?}");
        assert_eq!(report["Required"].as_array().unwrap().len(), usize::from(code == 4));
        assert!(
            required.is_empty() || contains(&report["Required"], required),
            "{report}"
        );
        assert!(contains(&report["Notes"], note), "{report}");
        assert_eq!(
            report["Stream"]["ViewType"],
            json!(view.as_ref().map(StreamViewType::as_str))
        );
        assert_eq!(
            (&report["Keys"], &report["HistoryTable"]),
            (&json!({"id": "S", "no": "N"}), &json!(format!("{name}-history")))
        );
        // A table that has to change has no command to deploy.
        assert_eq!(
            report["Deploy"].as_array().unwrap().len(),
            if code == 0 { 2 } else { 0 }
        );
        let error = format!("error: {name} cannot be attached as it is\n");
        assert_eq!(run.stderr, if code == 0 { String::new() } else { error });
        assert_eq!(view_of(&table, name), view, "it is not changed");
    }
    table.check("attach Missing => 3 error: there is no table Missing");
}

#[test]
fn a_stream_is_enabled_only_if_there_is_none() {
    let Some(table) = open("a_stream_is_enabled_only_if_there_is_none") else {
        return;
    };
    create(&table, "Orders", "id", None);
    let enabled = table.json("attach Orders --enable-stream", 0);
    assert_eq!(enabled["Stream"]["ViewType"], "NEW_AND_OLD_IMAGES");
    assert_eq!(view_of(&table, "Orders"), Some(StreamViewType::NewAndOldImages));
    let arn = enabled["Stream"]["Arn"].as_str().unwrap();
    assert!(
        enabled["Deploy"][1]
            .as_str()
            .unwrap()
            .contains(&format!("StreamArn={arn}")),
        "{enabled}"
    );
    assert!(enabled["Readers"].as_str().unwrap().contains(arn));
    let again = table.json("attach Orders --enable-stream", 0);
    assert!(contains(&again["Notes"], "which was not changed"));
    assert_eq!(again["Stream"]["Arn"], arn);
    create(&table, "Keys", "id", Some(StreamViewType::KeysOnly));
    let run = table.run("attach Keys --enable-stream");
    assert_eq!((run.code, view_of(&table, "Keys")), (4, Some(StreamViewType::KeysOnly)));
}

#[test]
fn hostile_names_are_passed_as_they_are() {
    let Some(table) = open("hostile_names_are_passed_as_they_are") else {
        return;
    };
    let key = "it's \"the\" $(id) `x`";
    create(&table, "Orders", key, Some(StreamViewType::NewAndOldImages));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a file.json");
    let mut options = "attach Orders --ignore a,b --history-table Log --updates-per-second 10 --ignore".words();
    let filter = r#"{"it's": ["a \"b\"", "$HOME"]}"#;
    let path = path.to_str().unwrap();
    let more = [
        "it's",
        "--version-attribute",
        "my \"rev\"",
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
    let attached = operations::attached::parse(&definition).unwrap();
    assert_eq!((attached.table(), attached.history_table()), ("Orders", "Log"));
    assert_eq!(
        attached.keys().map(|key| key.name.as_str()).collect::<Vec<_>>(),
        [key, "no"]
    );
    assert_eq!(attached.version_attribute(), Some("my \"rev\""));
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
        r#"IgnoreAttributes="[\"a,b\",\"it's\"]""#,
        r#"Filter="{\"dynamodb\":{\"$or\":[{\"NewImage\":{\"it's\":{\"S\":[\"a \u0022b\u0022\",\"$HOME\"]}}},{\"OldImage\":{\"it's\":{\"S\":[\"a \u0022b\u0022\",\"$HOME\"]}}}]}}""#,
    ] {
        assert!(words.lines().any(|line| line == word), "{word}\n{words}");
    }
    assert_eq!(report["UpdatesPerSecond"], json!(10.0));
    assert!(report["MonthlyCost"]["Total"].as_f64().unwrap() > 10.0, "{report}");
}

#[test]
fn the_text_can_be_copied() {
    let Some(table) = open("the_text_can_be_copied") else {
        return;
    };
    create(&table, "Orders", "my id", Some(StreamViewType::NewImage));
    let run = table.run("attach Orders --ignore 'last seen' --updates-per-second 1 --output table");
    assert_eq!(run.code, 0);
    for (start, part) in [
        ("  sam build", "--template tools/attach/template.yaml"),
        ("  sam deploy", " 'IgnoreAttributes=\"last seen\"'"),
        ("  aws lambda list-event-source-mappings", ":table/Orders/stream/"),
        ("note: with the view type NEW_IMAGE", "is recommended"),
        ("│ keys", "┆ my id (S), no (N)"),
        ("", "cost of the first month"),
    ] {
        let mut lines = run.stdout.lines();
        assert!(
            lines.any(|line| line.starts_with(start) && line.contains(part)),
            "{start}: {run:?}"
        );
    }
}

#[test]
fn wrong_arguments_are_usage_errors() {
    let Some(table) = open("wrong_arguments_are_usage_errors") else {
        return;
    };
    create(&table, "Orders", "id", Some(StreamViewType::NewImage));
    for (arguments, message) in [
        ("--sample 7", "--check"),
        ("--lag 7", "--check"),
        ("--check --sample 0", "1..=1000"),
        ("--check --enable-stream", "cannot be used with"),
        ("--ignore id", "IgnoreAttributes has the key attribute id"),
        ("--filter {", "--filter: "),
        (
            r#"--filter '{"a": []}'"#,
            "the attachment: Filter is invalid: the rules of a",
        ),
        ("--history-table Orders", "HistoryTable is the table itself"),
        ("--updates-per-second NaN", "updates-per-second"),
    ] {
        let run = table.run(&format!("attach Orders {arguments}"));
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{run:?}");
        assert!(run.stderr.contains(message), "{run:?}");
    }
}
