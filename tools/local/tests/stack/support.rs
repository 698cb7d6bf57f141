//! The stack of each test, whose functions are the program `local`.

use std::{collections::BTreeMap, path::Path, time::Duration};

use local::{
    lambda::Host,
    stack::Stack,
    template::{Function, Template},
};
use operations::quarantine;
use serde_json::{Value, json};
use shared::domain::{entity::EntityId, keys::VersionDigits, quarantine::QuarantinedRecord, version_item::VersionItem};
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
        log_level: "INFO".to_owned(),
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

/// Starts a stack whose stream-fn cannot start, so that each of its invocations fails.
pub(crate) async fn start_without_stream_fn(template: Template) -> RunningStack {
    let mut options = options(template, Some(PROGRAM));
    options.bootstraps.insert("stream-fn".to_owned(), "/bin/false".into());
    Box::pin(RunningStack::start(options)).await
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

/// Checks that each v0 equals its newest version plus `Latest` and the recent requests, and returns the number of versions of each entity.
pub(crate) fn versions(lines: &str) -> BTreeMap<String, usize> {
    let items = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let key = |item: &Value, name: &str| item[name]["S"].as_str().unwrap().to_owned();
    let items: BTreeMap<_, _> = items.map(|item| ((key(&item, "PK"), key(&item, "SK")), item)).collect();
    let mut counts = BTreeMap::new();
    for ((pk, _), v0) in items.iter().filter(|((_, sk), _)| sk == "v0") {
        let latest: usize = v0["Latest"]["N"].as_str().unwrap().parse().unwrap();
        for version in 1..=latest {
            let key = (pk.clone(), format!("v{version}"));
            assert!(items.contains_key(&key), "{v0} lacks v{version}");
        }
        // Before the point, an entry has the version.
        let requests = v0["RecentRequests"]["M"].as_object().unwrap().values();
        let versions = requests.map(|entry| entry["N"].as_str().unwrap().split('.').next().unwrap());
        let newest_request = versions.map(|version| version.parse::<usize>().unwrap()).max();
        assert_eq!(newest_request, Some(latest), "the newest of the recent requests");
        let newest = &items[&(pk.clone(), format!("v{latest}"))];
        let image = serde_json::from_value(v0.clone()).unwrap();
        let made = VersionItem::from_image(image, VersionDigits::default()).unwrap();
        let newest_item = serde_json::from_value(newest.clone()).unwrap();
        assert!(made.is_same_as(&newest_item), "{v0} and {newest}");
        counts.insert(pk.clone(), latest);
    }
    let versions = items.keys().filter(|(_, sk)| sk.starts_with('v') && sk != "v0");
    assert_eq!(
        versions.count(),
        counts.values().sum::<usize>(),
        "no version beyond Latest"
    );
    counts
}
