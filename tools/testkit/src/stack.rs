//! A local stack for each test, on free ports, in memory.

use std::{
    collections::BTreeMap,
    net::Ipv4Addr,
    ops::Deref,
    path::{Path, PathBuf},
};

pub use local::stack::Stack;
use local::{
    function,
    report::history::{self, Collections},
    stack::Options,
    template::Template,
};
use serde_json::Value;

use crate::{
    database,
    endpoint::{Endpoint, has_own_history},
    pages::root,
    wait::eventually,
};

/// Returns the template with these parameters. Its functions publish metrics, which tests read.
pub fn template(parameters: &[(&str, &str)]) -> Template {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    let metrics = ("MetricsNamespace", "VersionControl");
    let mut parameters: Vec<_> = [&metrics].into_iter().chain(parameters).map(owned).collect();
    if has_own_history() {
        parameters.insert(0, owned(&("HistoryTable", "own")));
    }
    Template::read(&root().join("template.yaml"), &parameters).unwrap()
}

/// Returns the options of a stack in memory. Its functions are this program, or the program of the test.
pub fn options(template: Template, program: Option<&str>) -> Options {
    Options {
        template,
        dynamodb: None,
        bind: Ipv4Addr::LOCALHOST.into(),
        dynamodb_port: 0,
        lambda_port: 0,
        data_dir: None,
        program: program.map_or_else(function::this_program, PathBuf::from),
        seal: None,
        bootstraps: BTreeMap::new(),
    }
}

/// A stack, and the DynamoDB it uses. The stack is dropped first.
pub struct RunningStack {
    stack: Stack,
    pub endpoint: Endpoint,
}

impl Deref for RunningStack {
    type Target = Stack;

    fn deref(&self) -> &Stack {
        &self.stack
    }
}

impl RunningStack {
    /// Starts a stack on the endpoint of the tests. The table gets a unique name.
    pub async fn start(mut options: Options) -> Self {
        let endpoint = Endpoint::open().await;
        let template = &mut options.template;
        let history_name = database::history_of(&template.table.name);
        let tables = [
            ("TABLE_NAME", Some(&mut template.table)),
            ("HISTORY_TABLE_NAME", template.history.as_mut()),
        ];
        for (variable, table) in tables {
            let Some(table) = table else { continue };
            let name = if variable == "TABLE_NAME" {
                &table.name
            } else {
                &history_name
            };
            let name = endpoint.table(name);
            for function in &mut template.functions {
                let replaced = function.environment.insert(variable.to_owned(), name.clone());
                assert_eq!(replaced.as_ref(), Some(&table.name), "{variable} of a function");
            }
            table.name = name;
        }
        options.dynamodb = Some(endpoint.dynamodb());
        let stack = Stack::start(options).await.unwrap();
        Self { stack, endpoint }
    }

    pub fn client(&self) -> aws_sdk_dynamodb::Client {
        aws_sdk_dynamodb::Client::new(&self.endpoint.config)
    }

    pub async fn put(&self, item: Value) {
        database::put_item(&self.client(), &self.table, item).await;
    }

    pub async fn delete(&self, pk: &str, sk: &str) {
        database::delete_item(&self.client(), &self.table, pk, sk).await;
    }
}

/// Invokes a function, and returns its response. An error has an `errorType`.
pub async fn invoke(stack: &Stack, function: &str, event: &Value) -> Value {
    let invoked = stack
        .lambda
        .invoke(function, event.to_string().into_bytes())
        .await
        .unwrap();
    serde_json::from_slice(&invoked.payload).unwrap()
}

/// Sends an update to writer-fn, and returns its outcome and version, or the type and message of its error.
pub async fn write(stack: &Stack, update: Value) -> (String, Value) {
    let response = invoke(stack, "writer-fn", &update).await;
    match response.get("errorType") {
        Some(kind) => (kind.as_str().unwrap().to_owned(), response["errorMessage"].clone()),
        None => (
            response["Outcome"].as_str().unwrap().to_owned(),
            response["Version"].clone(),
        ),
    }
}

pub async fn table(stack: &Stack) -> Collections {
    history::collect(
        operations::read::items::scan_items(&stack.store).await.unwrap(),
        stack.store.digits(),
    )
}

/// Returns an item in DynamoDB JSON, or null.
pub async fn item(stack: &Stack, pk: &str, sk: &str) -> Value {
    let table = table(stack).await;
    let items = table.get(pk).into_iter().flatten();
    let found = items.into_iter().find(|(key, _)| *key == sk);
    found.map_or(Value::Null, |(_, item)| serde_json::to_value(item).unwrap())
}

/// Waits until every history is complete, and returns the table.
pub async fn settled(stack: &Stack) -> Collections {
    eventually("complete histories", async || {
        let table = table(stack).await;
        history::missing(&table, stack.store.digits())
            .is_empty()
            .then_some(table)
    })
    .await
}

pub fn documents(folder: &Path) -> Vec<Value> {
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
