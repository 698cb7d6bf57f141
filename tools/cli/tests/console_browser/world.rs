//! The local stack, the consoles of its table, and the environment of the browser.

use std::{
    collections::BTreeMap,
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
    time::Duration,
};

use operations::{
    read::quarantined::quarantined,
    revision::{self, ChangeOptions},
};
use serde_json::Value;
use shared::{
    clock,
    config::{WriteMode, WriteOptions},
    domain::{request_id::RequestId, version::Version},
    dynamodb::Store,
};
use testkit::{
    database,
    endpoint::sdk_config,
    stack::{self, Stack},
    wait::eventually,
};

use crate::data;

pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);
pub(crate) const TOKEN: &str = "the-token-of-the-tests_0123456789";

fn inline() -> WriteOptions {
    database::mode(WriteMode::Inline)
}

pub(crate) struct World {
    pub(crate) stack: Stack,
    client: aws_sdk_dynamodb::Client,
    /// A read-only console.
    pub(crate) reading: Console,
    pub(crate) writing: Console,
}

impl World {
    pub(crate) async fn make() -> Self {
        let stack = Stack::start(stack::options(stack::template(&[]), None)).await.unwrap();
        let config = sdk_config(stack.dynamodb_endpoint()).await;
        let reading = Console::start(&stack, &[]);
        let writing = Console::start(&stack, &["--allow-write"]);
        let world = Self {
            client: aws_sdk_dynamodb::Client::new(&config),
            stack,
            reading,
            writing,
        };
        data::feed(&world).await;
        world
    }

    pub(crate) async fn write(&self, update: Value) {
        let response = stack::invoke(&self.stack, "writer-fn", &update).await;
        assert_eq!(response["Outcome"], "Written", "{response}");
    }

    /// Writes an update with a clock that is behind by some seconds, and its version.
    pub(crate) async fn write_before(&self, seconds: u64, update: Value) {
        let (store, update) = (self.at(seconds), database::update(update));
        database::write(&store, &update, inline()).await.unwrap();
    }

    /// Restores a version, or marks the entity as deleted, with a clock that is behind by some seconds.
    pub(crate) async fn change_before(&self, seconds: u64, restored: Option<u64>, update: Value) {
        let update = database::update(update);
        let (store, request) = (self.at(seconds), RequestId::new(format!("r{seconds}")).unwrap());
        let options = ChangeOptions {
            changes: update.changes,
            ..ChangeOptions::default()
        };
        if let Some(version) = restored.and_then(Version::new) {
            let restored = revision::restore(&store, &update.entity, version, request, options, inline());
            restored.await.unwrap();
        } else {
            let deleted = revision::delete(&store, &update.entity, request, options, inline());
            deleted.await.unwrap();
        }
    }

    fn at(&self, seconds: u64) -> Store {
        database::at_second(&self.stack.store, clock::since_epoch().as_secs() - seconds)
    }

    /// Puts an item without the writer.
    pub(crate) async fn put(&self, item: Value) {
        database::put_item(&self.client, &self.stack.table, item).await;
    }

    pub(crate) async fn delete(&self, pk: &str, sk: &str) {
        database::delete_item(&self.client, &self.stack.table, pk, sk).await;
    }

    /// Returns the items of an entity in DynamoDB JSON, by sort key.
    pub(crate) async fn items(&self, pk: &str) -> BTreeMap<String, Value> {
        let collections = stack::table(&self.stack).await;
        let Some(collection) = collections.get(pk) else {
            return BTreeMap::new();
        };
        let items = collection.items().iter();
        items
            .map(|(key, item)| (key.clone(), serde_json::to_value(item).unwrap()))
            .collect()
    }

    pub(crate) async fn has_versions(&self, pk: &str, keys: &[&str]) {
        eventually(&format!("the versions of {pk}"), async || {
            let items = self.items(pk).await;
            keys.iter().all(|key| items.contains_key(*key)).then_some(())
        })
        .await;
    }

    /// Waits until one record of each entity is in quarantine.
    pub(crate) async fn has_quarantined(&self, entities: &[&str]) {
        for id in entities {
            let entity = database::entity(id);
            let store = &self.stack.store;
            eventually("quarantine", async || quarantined(store, &entity).await.unwrap().pop()).await;
        }
    }
}

/// The program as its user starts it, until it is dropped.
pub(crate) struct Console {
    child: Child,
    /// `http://127.0.0.1:12345`.
    pub(crate) url: String,
}

impl Console {
    fn start(stack: &Stack, arguments: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_vzero"));
        command
            .args(["--endpoint-url", stack.dynamodb_endpoint(), "--table", &stack.table])
            .args(["console", "--port", "0", "--no-open", "--token", TOKEN, "--lag", "1"])
            .args(arguments);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let said: Value = serde_json::from_str(&line).unwrap_or_default();
        let url = said["URL"]
            .as_str()
            .and_then(|url| url.strip_suffix(&format!("/?token={TOKEN}")));
        let url = url
            .unwrap_or_else(|| panic!("the console does not start: {line}"))
            .to_owned();
        Self { child, url }
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns an environment variable that tools/cli/tests/with-browser sets.
#[allow(clippy::disallowed_methods, reason = "the environment names the browser")]
pub(crate) fn env(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Returns a required environment variable that tools/cli/tests/with-browser sets.
pub(crate) fn required_env(name: &str) -> String {
    env(name).unwrap_or_else(|| panic!("{name} is not set: tools/cli/tests/with-browser sets it"))
}
