//! Filters of `tools/events/template.yaml`: which items become events.

use local::mapping::filter::Filters;
use serde_json::{Value, json};

use crate::support::{RunningStack, invoke, root, settled, start_with, template, write};

/// Returns the patterns for latest items and for version items.
fn patterns() -> [Filters; 2] {
    let text = std::fs::read_to_string(root().join("tools/events/template.yaml")).unwrap();
    let patterns: Vec<_> = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- '")?.strip_suffix('\''))
        .map(|pattern| Filters::parse([pattern]).unwrap())
        .collect();
    patterns.try_into().unwrap()
}

fn record(event: &str, item: &Value) -> Value {
    json!({"eventName": event, "dynamodb": {"Keys": {"PK": item["PK"], "SK": item["SK"]}, "NewImage": item}})
}

/// Returns the sort keys of the items of a table whose change matches each pattern.
async fn selected(stack: &RunningStack, event: &str, table: &str) -> [Vec<String>; 2] {
    let client = aws_sdk_dynamodb::Client::new(&stack.config);
    let items = client.scan().table_name(table).send().await.unwrap().items.unwrap();
    let items: Vec<Value> = items
        .into_iter()
        .map(|item| serde_json::to_value(shared::domain::Item::from(item)).unwrap())
        .collect();
    patterns().map(|filters| {
        let found = items.iter().filter(|item| filters.matches(&record(event, item)));
        let mut keys: Vec<_> = found.map(|item| item["SK"]["S"].as_str().unwrap().to_owned()).collect();
        keys.sort();
        keys
    })
}

/// Starts a stack with items of each kind.
async fn filled(parameters: &[(&str, &str)]) -> RunningStack {
    let stack = start_with(template(parameters)).await;
    for state in ["OK", "WARNING1"] {
        write(&stack, json!({"ID": "Press#1", "State": state})).await;
    }
    let deleted = json!({"ID": "Press#1", "Deleted": true});
    assert_eq!(invoke(&stack, "writer-fn", &deleted).await["Version"], 3);
    settled(&stack).await;
    let client = aws_sdk_dynamodb::Client::new(&stack.config);
    for other in [
        "Metadata",
        "2026-11-22T06:24:48",
        "quarantine#2",
        "floor",
        "request#r-1",
    ] {
        let item = json!({"PK": {"S": "Press#1"}, "SK": {"S": other}, "State": {"S": "OK"}});
        let item: shared::domain::Item = serde_json::from_value(item).unwrap();
        let put = client.put_item().table_name(&stack.table).set_item(Some(item.into()));
        put.send().await.unwrap();
    }
    stack
}

#[tokio::test]
async fn latest_items_or_version_items_become_events() {
    let stack = Box::pin(filled(&[("VersionDigits", "10")])).await;
    let versions = ["v0000000001", "v0000000002", "v0000000003"];
    assert_eq!(
        selected(&stack, "INSERT", &stack.table).await,
        [vec!["v0".to_owned()], versions.map(str::to_owned).to_vec()]
    );
    // A change of a version item, such as by `vzero admin prune`, is no new version.
    assert_eq!(
        selected(&stack, "MODIFY", &stack.table).await,
        [vec!["v0".to_owned()], Vec::new()]
    );
    // An expired item has no image.
    let keys = json!({"PK": {"S": "Press#1"}, "SK": {"S": "v0"}});
    let removed = json!({"eventName": "REMOVE", "dynamodb": {"Keys": keys}});
    assert!(patterns().iter().all(|filters| !filters.matches(&removed)));
}

#[tokio::test]
async fn a_history_table_has_version_items_only() {
    let stack = Box::pin(filled(&[("HistoryTable", "own")])).await;
    let history = stack.store.own_history().unwrap().to_owned();
    assert_eq!(
        selected(&stack, "INSERT", &stack.table).await,
        [vec!["v0".to_owned()], Vec::new()]
    );
    assert_eq!(
        selected(&stack, "INSERT", &history).await,
        [Vec::new(), ["v1", "v2", "v3"].map(str::to_owned).to_vec()]
    );
}
