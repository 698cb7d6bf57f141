//! Clients of others write a table with history attached: afterwards, the history of each item is what the client did.
//!
//! Each program reads every item after each of its writes, and prints the states that it had. Meanwhile, the processes of stream-fn
//! are killed again and again.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the message")]

use std::{
    path::PathBuf,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use local::{attach::Attachment, stack::Stack};
use serde_json::{Value, json};
use shared::domain::{Item, attributes::same_item};
use testkit::{attached::states, endpoint::Endpoint, stack, wait::eventually};
use tokio::process::{Child, Command};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/attached_clients");
/// Number of invocations after which the processes of the functions are killed.
const INVOCATIONS: usize = 2;

#[allow(clippy::disallowed_methods, reason = "the clients are parameters of the tests")]
fn variable(name: &str) -> String {
    let found = std::env::var(name);
    found.unwrap_or_else(|_| panic!("{name} is set by tools/local/tests/with-attached-clients"))
}

/// Attaches history to a new table, runs a client with its endpoint and its name, and compares what it did with the history.
async fn check(mut definition: Value, program: &str, script: PathBuf, arguments: &[&str]) {
    let endpoint = Endpoint::open().await;
    let name = endpoint.table("Attached");
    definition["TableName"] = json!(name);
    definition["HistoryTable"] = json!(endpoint.table("Attached-history"));
    definition["BillingMode"] = json!("PAY_PER_REQUEST");
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), definition.to_string()).unwrap();
    let mut template = stack::template(&[]);
    Attachment::read(file.path()).unwrap().attach(&mut template).unwrap();
    let mut options = stack::options(template, Some(env!("CARGO_BIN_EXE_local")));
    options.dynamodb = Some(endpoint.dynamodb());
    let stack = Stack::start(options).await.unwrap();

    let output = tempfile::NamedTempFile::new().unwrap();
    let mut client = Command::new(program)
        .arg(script)
        .args([&endpoint.url(), &name])
        .args(arguments)
        // The stack accepts any credentials.
        .envs([
            ("AWS_ACCESS_KEY_ID", "local"),
            ("AWS_SECRET_ACCESS_KEY", "local"),
            ("AWS_REGION", "us-east-1"),
        ])
        .stdout(Stdio::from(output.reopen().unwrap()))
        .spawn()
        .unwrap();
    let (status, kills) = kill_functions(&stack, &mut client).await;
    assert!(status.success());
    assert!(kills > 2, "{kills}");

    let printed = std::fs::read_to_string(output.path()).unwrap();
    let items: Vec<Value> = printed
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert!(items.len() >= 300, "{}", items.len());
    for item in &items {
        let keys: Item = serde_json::from_value(item["Key"].clone()).unwrap();
        let expected: Vec<Option<Item>> = serde_json::from_value(item["States"].clone()).unwrap();
        let what = format!("{} versions of {}", expected.len(), item["Key"]);
        let found = async || {
            let found = states(&stack.store, &keys).await;
            (found.len() >= expected.len()).then_some(found)
        };
        let found = eventually(&what, found).await;
        assert_eq!(found.len(), expected.len(), "{}", item["Key"]);
        for (index, (found, expected)) in found.iter().zip(&expected).enumerate() {
            let is_same = match (found, expected) {
                (Some(found), Some(expected)) => same_item(found, expected),
                (found, expected) => found.is_none() && expected.is_none(),
            };
            assert!(is_same, "{} version {}", item["Key"], index + 1);
        }
    }
    assert_eq!(stack.mapping.counters.get().documents, 0);
}

/// Kills the processes of the functions after some invocations, until the client ends. Returns the number of kills.
async fn kill_functions(stack: &Stack, client: &mut Child) -> (ExitStatus, usize) {
    let mut poll = tokio::time::interval(Duration::from_millis(20));
    let invocations = || stack.mapping.counters.get().invocations;
    let (mut kills, mut seen) = (0, invocations());
    loop {
        if let Some(status) = client.try_wait().unwrap() {
            return (status, kills);
        }
        poll.tick().await;
        if invocations() >= seen + INVOCATIONS {
            stack.lambda.kill_all();
            (kills, seen) = (kills + 1, invocations());
        }
    }
}

fn definition(keys: &[(&str, &str)]) -> Value {
    let roles = ["HASH", "RANGE"].iter().zip(keys);
    json!({
        "KeySchema": roles.map(|(role, (name, _))| json!({"AttributeName": name, "KeyType": role})).collect::<Vec<_>>(),
        "AttributeDefinitions": keys
            .iter()
            .map(|(name, kind)| json!({"AttributeName": name, "AttributeType": kind}))
            .collect::<Vec<_>>(),
    })
}

async fn pynamodb(definition: Value, kind: &str) {
    let script = PathBuf::from(FOLDER).join("pynamodb_orders.py");
    check(definition, &variable("VZERO_TEST_PYTHON"), script, &[kind]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pynamodb_with_a_version_attribute() {
    let mut definition = definition(&[("id", "S")]);
    definition["VersionAttribute"] = json!("version");
    pynamodb(definition, "versioned").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pynamodb_with_a_numeric_sort_key_and_an_ignored_attribute() {
    let mut definition = definition(&[("customer", "S"), ("number", "N")]);
    definition["IgnoreAttributes"] = json!(["saved_at"]);
    pynamodb(definition, "plain").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn electrodb_with_a_single_table_design() {
    let mut definition = definition(&[("pk", "S"), ("sk", "S")]);
    let types = definition["AttributeDefinitions"].as_array_mut().unwrap();
    types.extend(["gsi1pk", "gsi1sk"].map(|name| json!({"AttributeName": name, "AttributeType": "S"})));
    definition["GlobalSecondaryIndexes"] = json!([{
        "IndexName": "byStatus", "Projection": {"ProjectionType": "ALL"},
        "KeySchema": [{"AttributeName": "gsi1pk", "KeyType": "HASH"}, {"AttributeName": "gsi1sk", "KeyType": "RANGE"}],
    }]);
    let script = PathBuf::from(variable("VZERO_TEST_ELECTRODB"));
    check(definition, "node", script, &[]).await;
}
