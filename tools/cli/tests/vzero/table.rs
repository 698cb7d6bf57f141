//! `vzero admin table create`: on the embedded DynamoDB, and on an endpoint that rejects requests.

use std::{collections::HashMap, process::Command, sync::Mutex};

use aws_sdk_dynamodb::types::{
    ScalarAttributeType::{N, S},
    StreamSpecification, StreamViewType, TableStatus,
};
use axum::http::{HeaderMap, StatusCode};
use serde_json::{Value, json};
use testkit::{
    command::Run,
    database::create_table,
    endpoint::{is_about_one_table, is_skipped},
    table::Table,
};

use crate::new_table;

/// Creates the table of this name with the command.
fn create(table: &Table, name: &str, options: &str) -> Run {
    table.run(&format!("--table {name} table create {options}"))
}

fn state(name: &str, outcome: &str) -> Value {
    json!({
        "Table": name, "Outcome": outcome, "Status": "ACTIVE", "Keys": {"PK": "S", "SK": "S"},
        "BillingMode": "PAY_PER_REQUEST", "Stream": "NEW_IMAGE", "TimeToLive": "TTL", "DeletionProtection": true,
        "Encryption": true,
    })
}

const NOTE: &str = "note: this endpoint does not support point-in-time recovery\n";

#[test]
fn a_missing_table_is_created_with_all_settings_and_an_existing_one_is_only_shown() {
    const TEST: &str = "a_missing_table_is_created_with_all_settings_and_an_existing_one_is_only_shown";
    if is_skipped(TEST, "other engines support other settings") {
        return;
    }
    let table = new_table();
    let run = create(&table, "Factory", "");
    assert_eq!(
        (run.code, run.json(), run.stderr.as_str()),
        (0, state("Factory", "Created"), NOTE)
    );
    let client = &table.client;
    let described = table
        .runtime
        .block_on(client.describe_table().table_name("Factory").send());
    let described = described.unwrap().table.unwrap();
    assert_eq!(described.table_status, Some(TableStatus::Active));
    assert_eq!(described.deletion_protection_enabled, Some(true));
    let image = StreamSpecification::builder()
        .stream_enabled(true)
        .stream_view_type(StreamViewType::NewImage);
    assert_eq!(described.stream_specification, Some(image.build().unwrap()));
    let run = create(&table, "Factory", "");
    assert_eq!(
        (run.code, run.json(), run.stderr.as_str()),
        (0, state("Factory", "Exists"), NOTE)
    );

    // The table works: versions, and a stream for them.
    let write = "--table Factory put E --mode inline --set A=1";
    assert_eq!(table.json(&write, 0)["Version"], 1);
    assert_eq!(table.run("--table Factory items E").lines.len(), 2);
    // The width of a table with items is 1.
    let run = create(&table, "Factory", "--version-digits 10");
    assert_eq!((run.code, &run.json()["Outcome"]), (2, &json!("Exists")));
    assert!(
        run.stderr
            .ends_with("error: the table's version keys have 1 digits, not 10\n")
    );
}

#[test]
fn a_width_is_stored_with_the_table() {
    if is_about_one_table("a_width_is_stored_with_the_table") {
        return;
    }
    let table = new_table();
    let name = table.endpoint.table("Ten");
    table.check(&format!(
        r#"
        --table {name} table create --version-digits 10 => {{"VersionDigits": 10}}
        --table {name} table create => {{"VersionDigits": 10}}
        --table {name} put E --mode inline --set A=1 => {{"Version": 1}}
        --table {name} items E => SK ["v0", "v0000000001"]
        "#
    ));
    let run = create(&table, &name, "--version-digits 9");
    assert_eq!((run.code, &run.json()["VersionDigits"]), (2, &json!(10)));
    let said = "error: the table's version keys have 10 digits, not 9\n";
    assert!(run.stderr.ends_with(said), "{run:?}");

    // An existing table without a width is not changed.
    let empty = new_table();
    let run = create(&empty, &empty.name, "--version-digits 10");
    assert_eq!(run.code, 0, "{run:?}");
    assert!(
        run.stderr
            .contains("note: the table is empty: the first put stores the width of version keys\n")
    );
    assert!(run.json().get("VersionDigits").is_none());
    assert!(
        empty
            .runtime
            .block_on(operations::read::scan_items::is_empty(&empty.store))
            .unwrap()
    );
    unprotect(&table, &name);
}

/// Lets the test delete its table.
fn unprotect(table: &Table, name: &str) {
    let request = table.client.update_table().table_name(name);
    let request = request.deletion_protection_enabled(false).send();
    table.runtime.block_on(request).unwrap();
}

#[test]
fn a_table_that_does_not_fit_is_an_error_that_names_the_difference() {
    if is_about_one_table("a_table_that_does_not_fit_is_an_error_that_names_the_difference") {
        return;
    }
    let table = new_table();
    let create_with = |name: &str, keys: &[_]| {
        let name = table.endpoint.table(name);
        table
            .runtime
            .block_on(create_table(&table.client, &name, keys))
            .unwrap();
        table.runtime.block_on(table.endpoint.wait_until_active(&name));
        name
    };
    let keys = [("PK", S), ("SK", S)];
    for (name, keys, difference) in [
        ("Id", &[("Id", S)][..], "its keys are Id (S), not PK (S), SK (S)"),
        (
            "Number",
            &[("PK", S), ("SK", N)],
            "its keys are PK (S), SK (N), not PK (S), SK (S)",
        ),
        (
            "Turned",
            &[("SK", S), ("PK", S)],
            "its keys are SK (S), PK (S), not PK (S), SK (S)",
        ),
        ("NoStream", &keys, "it has no stream"),
    ] {
        let name = create_with(name, keys);
        let run = create(&table, &name, "");
        let error = format!("error: the table {name} exists, but {difference}\n");
        assert_eq!(run.code, 4);
        assert!(run.stderr.ends_with(&error), "{run:?}");
        assert_eq!(
            (&run.json()["Outcome"], &run.json()["Table"]),
            (&json!("Exists"), &json!(name))
        );
    }
    // Settings without which versioning works are notes. The table is not changed.
    let run = create(&table, &table.name, "");
    let mut expected = state(&table.name, "Exists");
    expected["DeletionProtection"] = json!(false);
    expected["Encryption"] = json!(false);
    expected.as_object_mut().unwrap().remove("TimeToLive");
    let mut shown = run.json();
    shown.as_object_mut().unwrap().remove("PointInTimeRecovery");
    shown.sort_all_objects();
    expected.sort_all_objects();
    assert_eq!((run.code, shown), (0, expected));
    for note in [
        "deletion protection",
        "encryption with the AWS managed key",
        "time to live",
    ] {
        assert!(run.stderr.contains(&format!("note: {note} is disabled\n")), "{run:?}");
    }
    assert_eq!(create(&table, &table.name, "").json(), run.json());
}

/// Serves a DynamoDB that returns these errors, by operation, and otherwise describes a table that fits.
async fn serve(errors: HashMap<&'static str, &'static str>) -> String {
    let is_created = std::sync::Arc::new(Mutex::new(false));
    let respond = async move |headers: HeaderMap| {
        let target = headers["x-amz-target"].to_str().unwrap();
        let (_, operation) = target.split_once('.').unwrap();
        let failed = |code: &str| (StatusCode::BAD_REQUEST, json!({"__type": code}).to_string());
        if let Some(code) = errors.get(operation) {
            return failed(code);
        }
        let mut is_created = is_created.lock().unwrap();
        let body = match operation {
            "CreateTable" => {
                *is_created = true;
                json!({})
            }
            "DescribeTable" if !*is_created => return failed("ResourceNotFoundException"),
            "DescribeTable" => json!({"Table": {
                "TableStatus": "ACTIVE", "DeletionProtectionEnabled": true, "SSEDescription": {"Status": "ENABLED"},
                "BillingModeSummary": {"BillingMode": "PAY_PER_REQUEST"},
                "KeySchema": [{"AttributeName": "PK", "KeyType": "HASH"}, {"AttributeName": "SK", "KeyType": "RANGE"}],
                "StreamSpecification": {"StreamEnabled": true, "StreamViewType": "NEW_IMAGE"},
            }}),
            "DescribeContinuousBackups" => json!({"ContinuousBackupsDescription": {
                "ContinuousBackupsStatus": "ENABLED",
                "PointInTimeRecoveryDescription": {"PointInTimeRecoveryStatus": "ENABLED"},
            }}),
            _ => json!({}),
        };
        (StatusCode::OK, body.to_string())
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = axum::Router::new().fallback(respond);
    tokio::spawn(async move { axum::serve(listener, server).await });
    format!("http://{address}")
}

async fn create_at(endpoint: &str) -> Run {
    let mut vzero = Command::new(crate::VZERO);
    vzero
        .env_clear()
        .args(["--endpoint-url", endpoint, "--table", "Factory", "table", "create"]);
    let output = tokio::task::spawn_blocking(move || vzero.output()).await.unwrap();
    output.unwrap().into()
}

#[tokio::test]
async fn a_setting_that_is_rejected_is_named_after_the_table_was_created() {
    let endpoint = serve(HashMap::from([("UpdateTimeToLive", "AccessDeniedException")])).await;
    let run = create_at(&endpoint).await;
    assert_eq!((run.code, &run.json()["Outcome"]), (5, &json!("Created")), "{run:?}");
    assert_eq!(run.json()["PointInTimeRecovery"], true);
    let error = "error: the table Factory was created without time to live \
                 (UpdateTimeToLive failed with AccessDeniedException (request unknown)); \
                 enable it in the console of AWS or with the AWS CLI\n";
    assert_eq!(run.stderr, format!("note: time to live is disabled\n{error}"));

    let endpoint = serve(HashMap::from([("CreateTable", "AccessDeniedException")])).await;
    let run = create_at(&endpoint).await;
    assert_eq!((run.code, run.stdout.as_str()), (5, ""));
    assert_eq!(
        run.stderr,
        format!(
            "error: CreateTable of Factory at {endpoint}, Region us-east-1 is denied: the role needs dynamodb:CreateTable, \
             see docs/security.md\n"
        )
    );
    let endpoint = serve(HashMap::from([("CreateTable", "ValidationException")])).await;
    assert_eq!(create_at(&endpoint).await.code, 2);
}
