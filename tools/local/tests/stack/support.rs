//! A stack for each test, on free ports, in memory.

use std::{
    collections::BTreeMap,
    ops::Deref,
    path::{Path, PathBuf},
    time::Duration,
};

use aws_sdk_dynamodb::Client;
use local::{
    report::history::{self, Collections},
    stack::{Options, Stack},
    template::Template,
};
use serde_json::{Value, json};
use shared::domain::Item;

use crate::endpoint::Endpoint;

/// The program that the stack starts as its functions.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_local");
/// How long anything is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .unwrap()
        .to_owned()
}

pub(crate) fn template(parameters: &[(&str, &str)]) -> Template {
    let parameters: Vec<_> = parameters
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    Template::read(&root().join("template.yaml"), &parameters).unwrap()
}

/// A stack, and the DynamoDB below it, which it is gone before.
pub(crate) struct Running {
    stack: Stack,
    pub(crate) endpoint: Endpoint,
}

impl Deref for Running {
    type Target = Stack;

    fn deref(&self) -> &Stack {
        &self.stack
    }
}

pub(crate) async fn start() -> Running {
    start_with(template(&[])).await
}

pub(crate) async fn start_with(template: Template) -> Running {
    start_on(template, None, None).await
}

/// With an SQS and an S3.
pub(crate) async fn start_on(mut template: Template, sqs: Option<String>, s3: Option<String>) -> Running {
    let endpoint = Endpoint::open().await;
    let name = endpoint.table(&template.table.name);
    for function in &mut template.functions {
        let named = function.environment.insert("TABLE_NAME".to_owned(), name.clone());
        assert_eq!(
            named.as_ref(),
            Some(&template.table.name),
            "a function is told the table's name"
        );
    }
    template.table.name = name;
    let options = Options {
        template,
        dynamodb_port: 0,
        lambda_port: 0,
        data_dir: None,
        failed: None,
        sqs_endpoint: sqs,
        s3_endpoint: s3,
        program: PROGRAM.into(),
        bootstraps: BTreeMap::new(),
    };
    let stack = Stack::start_on(options, Some(endpoint.dynamodb())).await.unwrap();
    Running { stack, endpoint }
}

/// Invokes a function. An error is told by its `errorType`.
pub(crate) async fn invoke(stack: &Stack, function: &str, event: &Value) -> Value {
    let invoked = stack
        .lambda
        .invoke(function, event.to_string().into_bytes())
        .await
        .unwrap();
    serde_json::from_slice(&invoked.payload).unwrap()
}

/// Sends an update to writer-fn, and returns its outcome and version, or its error's type and message.
pub(crate) async fn write(stack: &Stack, update: Value) -> (String, Value) {
    let answer = invoke(stack, "writer-fn", &update).await;
    match answer.get("errorType") {
        Some(kind) => (kind.as_str().unwrap().to_owned(), answer["errorMessage"].clone()),
        None => (
            answer["Outcome"].as_str().unwrap().to_owned(),
            answer["Version"].clone(),
        ),
    }
}

/// A client of the stack's database, for what a person does by hand.
pub(crate) fn by_hand(stack: &Running) -> Client {
    Client::new(&stack.endpoint.config)
}

pub(crate) async fn put_by_hand(stack: &Running, item: Value) {
    let item: Item = serde_json::from_value(item).unwrap();
    let request = by_hand(stack)
        .put_item()
        .table_name(&stack.table)
        .set_item(Some(item.into()));
    request.send().await.unwrap();
}

pub(crate) async fn table(stack: &Stack) -> Collections {
    history::collect(stack.store.scan_items().await.unwrap(), stack.digits)
}

/// One item, as DynamoDB JSON.
pub(crate) async fn item(stack: &Stack, pk: &str, sk: &str) -> Value {
    let table = table(stack).await;
    let found = table
        .get(pk)
        .and_then(|collection| collection.items().iter().find(|(other, _)| other == sk));
    found.map_or(Value::Null, |(_, item)| serde_json::to_value(item).unwrap())
}

/// The table, once every history in it is complete.
pub(crate) async fn settled(stack: &Stack) -> Collections {
    eventually("complete histories", async || {
        let table = table(stack).await;
        history::missing(&table, stack.digits).is_empty().then_some(table)
    })
    .await
}

/// Asks until there is an answer.
pub(crate) async fn eventually<T>(what: &str, ask: impl AsyncFn() -> Option<T>) -> T {
    let asked = async {
        loop {
            if let Some(answer) = ask().await {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, asked)
        .await
        .unwrap_or_else(|_| panic!("no {what} within {PATIENCE:?}"))
}

/// The failure documents in a folder, wherever in it they are.
pub(crate) fn documents(folder: &Path) -> Vec<Value> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for path in entries.map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            found.extend(documents(&path));
        } else if !path.file_name().unwrap().to_string_lossy().starts_with('.') {
            found.push(serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap());
        }
    }
    found
}

/// Checks that each v0 is its newest version plus `Latest` and what it remembers of requests, and returns how many versions each entity has.
pub(crate) fn versions(lines: &str) -> std::collections::BTreeMap<String, usize> {
    let items: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let find = |pk: &Value, sk: &str| items.iter().find(|item| item["PK"] == *pk && item["SK"]["S"] == sk);
    let mut counts = std::collections::BTreeMap::new();
    for v0 in items.iter().filter(|item| item["SK"]["S"] == "v0") {
        let latest: usize = v0["Latest"]["N"].as_str().unwrap().parse().unwrap();
        for version in 1..=latest {
            assert!(
                find(&v0["PK"], &format!("v{version}")).is_some(),
                "{v0} lacks v{version}"
            );
        }
        let mut newest = find(&v0["PK"], &format!("v{latest}")).unwrap().clone();
        newest["Latest"] = json!({"N": latest.to_string()});
        newest["SK"] = json!({"S": "v0"});
        let mut v0 = v0.clone();
        let requests = v0.as_object_mut().unwrap().remove("RecentRequests").unwrap();
        let known = requests["M"]
            .as_object()
            .unwrap()
            .values()
            .max_by_key(|version| version["N"].as_str().unwrap().parse::<usize>().unwrap());
        assert_eq!(known.unwrap(), &newest["Latest"], "the newest request is remembered");
        assert_eq!(v0, newest);
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
