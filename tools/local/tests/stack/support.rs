//! The stack of each test, whose functions are the program `local`.

use std::{collections::BTreeMap, path::Path, time::Duration};

use local::{
    lambda::Host,
    report::history::{self, Collection},
    stack::Stack,
    template::{Function, Template},
};
use operations::quarantine;
use serde_json::{Value, json};
use shared::domain::{
    entity::EntityId,
    keys::{LATEST_KEY, VersionDigits},
    quarantine::QuarantinedRecord,
    version::Version,
    version_item::latest_of,
};
pub(crate) use testkit::{
    pages::root,
    stack::{RunningStack, documents, invoke, item, options, settled, table, template, write},
    wait::eventually,
};

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_local");

pub(crate) async fn start() -> RunningStack {
    start_with(template(&[])).await
}

pub(crate) async fn start_with(template: Template) -> RunningStack {
    RunningStack::start(options(template, Some(PROGRAM))).await
}

/// Returns a function without settings other than the name of a table.
pub(crate) fn function(binary: &str, timeout: Duration) -> Function {
    Function {
        logical_id: binary.to_owned(),
        binary: binary.to_owned(),
        timeout,
        memory: 128,
        environment: [("TABLE_NAME".to_owned(), "T".to_owned())].into(),
    }
}

/// Returns a host whose functions are this program, at most two processes each, with the endpoint of a DynamoDB.
pub(crate) fn host(program: &str, arguments: &[&str], dynamodb: String, logs: &Path) -> Host {
    Host {
        program: program.into(),
        arguments: arguments.iter().map(|argument| (*argument).to_owned()).collect(),
        bootstraps: BTreeMap::new(),
        environment: [("AWS_ENDPOINT_URL_DYNAMODB".to_owned(), dynamodb)].into(),
        concurrency: 2,
        logs: logs.to_owned(),
    }
}

/// Returns an endpoint that accepts connections and never responds.
pub(crate) fn silent_endpoint() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    // Open until the test ends.
    Box::leak(Box::new(listener));
    format!("http://{address}")
}

/// Returns a stream record of an item.
pub(crate) fn insert(number: &str, image: &Value) -> Value {
    let keys = json!({"PK": image["PK"], "SK": image["SK"]});
    json!({"eventName": "INSERT", "dynamodb": {"Keys": keys, "NewImage": image, "SequenceNumber": number}})
}

/// Returns the first latest item of an entity.
pub(crate) fn first(entity: &str) -> Value {
    json!({"PK": {"S": entity}, "SK": {"S": "v0"}, "Latest": {"N": "1"}})
}

/// Returns a message of a queue with an update.
pub(crate) fn message(id: &str, update: &Value) -> Value {
    json!({"messageId": id, "body": update.to_string(), "eventSource": "aws:sqs"})
}

/// Returns the response to a batch in which these messages or records failed.
pub(crate) fn failed(ids: &[&str]) -> Value {
    let failures = ids.iter().map(|id| json!({"itemIdentifier": id}));
    json!({"batchItemFailures": failures.collect::<Vec<_>>()})
}

/// Returns the lines of a function's log so far.
pub(crate) fn log(stack: &Stack, function: &str) -> Vec<String> {
    let text = std::fs::read_to_string(stack.logs.join(format!("{function}.log"))).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// Returns the lines of a function's log so far, each of which is JSON.
pub(crate) fn logged(stack: &Stack, function: &str) -> Vec<Value> {
    let parse = |line: &String| serde_json::from_str(line).unwrap_or_else(|_| panic!("no JSON: {line}"));
    log(stack, function).iter().map(parse).collect()
}

/// Waits until an entity has a record in quarantine.
pub(crate) async fn quarantined(stack: &RunningStack, id: &str) -> QuarantinedRecord {
    let entity = EntityId::new(id).unwrap();
    eventually("quarantine", async || {
        quarantine::quarantined(&stack.store, &entity).await.unwrap().pop()
    })
    .await
}

/// Checks that the history of each entity in a dump is complete, and returns the number of its versions.
pub(crate) fn versions(lines: &str) -> BTreeMap<String, usize> {
    let digits = VersionDigits::default();
    let items = lines.lines().map(|line| serde_json::from_str(line).unwrap());
    let collections = history::collect(items.collect(), digits);
    assert_eq!(history::missing(&collections, digits), BTreeMap::new());
    let count = |(entity, collection): (String, Collection)| {
        let (_, latest) = collection.iter().find(|(key, _)| key == LATEST_KEY)?;
        let versions = collection.iter().filter_map(|(key, _)| digits.version_of(key));
        let numbers: Vec<_> = versions.map(Version::get).collect();
        assert_eq!(
            numbers.last().copied(),
            latest_of(latest).ok().map(Version::get),
            "{entity}"
        );
        Some((entity, numbers.len()))
    };
    collections.into_iter().filter_map(count).collect()
}
