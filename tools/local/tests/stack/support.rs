//! The stack of each test, whose functions are the program `local`.

use std::{collections::BTreeMap, path::Path, time::Duration};

use local::{
    lambda::Host,
    template::{Function, Template},
};
use serde_json::Value;
use shared::domain::{keys::VersionDigits, version_item::VersionItem};
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

/// Checks that each v0 equals its newest version plus `Latest` and the recent requests, and returns the number of versions of each entity.
pub(crate) fn versions(lines: &str) -> BTreeMap<String, usize> {
    let items: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let find = |pk: &Value, sk: &str| items.iter().find(|item| item["PK"] == *pk && item["SK"]["S"] == sk);
    let mut counts = BTreeMap::new();
    for v0 in items.iter().filter(|item| item["SK"]["S"] == "v0") {
        let latest: usize = v0["Latest"]["N"].as_str().unwrap().parse().unwrap();
        for version in 1..=latest {
            assert!(
                find(&v0["PK"], &format!("v{version}")).is_some(),
                "{v0} lacks v{version}"
            );
        }
        let newest = find(&v0["PK"], &format!("v{latest}")).unwrap();
        let known = v0["RecentRequests"]["M"]
            .as_object()
            .unwrap()
            .values()
            .map(|entry| {
                entry["N"]
                    .as_str()
                    .unwrap()
                    .split('.')
                    .next()
                    .unwrap()
                    .parse::<usize>()
                    .unwrap()
            })
            .max();
        assert_eq!(known, Some(latest), "the newest request is among the recent requests");
        let image = serde_json::from_value(v0.clone()).unwrap();
        let made = VersionItem::from_image(image, VersionDigits::default()).unwrap();
        let newest_item = serde_json::from_value(newest.clone()).unwrap();
        assert!(made.is_same_as(&newest_item), "{v0} and {newest}");
        counts.insert(newest["PK"]["S"].as_str().unwrap().to_owned(), latest);
    }
    let versions = items
        .iter()
        .filter(|item| item["SK"]["S"].as_str().unwrap().starts_with('v') && item["SK"]["S"] != "v0");
    assert_eq!(
        versions.count(),
        counts.values().sum::<usize>(),
        "no version beyond Latest"
    );
    counts
}
