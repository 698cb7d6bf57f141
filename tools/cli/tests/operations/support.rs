//! A table of its own for each test, and the command.

use std::process::{Child, Command, Stdio};

use aws_sdk_dynamodb::Client;
use local::dynamodb::table;
use serde_json::{Value, json};
use shared::{
    domain::{
        Item,
        entity::EntityId,
        keys::VersionDigits,
        update::{Ordering, Update},
        version_item::VersionItem,
    },
    dynamodb::{
        Store,
        put::put_version::PutOutcome,
        write::{WriteMode, WriteOptions, WriteOutcome},
    },
};

use crate::endpoint::Endpoint;

pub(crate) struct Table {
    pub(crate) endpoint: Endpoint,
    pub(crate) name: String,
    pub(crate) client: Client,
    pub(crate) store: Store,
    pub(crate) runtime: tokio::runtime::Runtime,
}

/// What a run of the command came to.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) lines: Vec<Value>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Table {
    pub(crate) fn new() -> Self {
        Self::with_digits(1)
    }

    pub(crate) fn with_digits(digits: u8) -> Self {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let endpoint = runtime.block_on(Endpoint::open());
        let name = endpoint.table("VersionControl");
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        let settings = local::template::Table {
            name: name.clone(),
            attributes: vec![pair("PK", "S"), pair("SK", "S")],
            keys: vec![pair("PK", "HASH"), pair("SK", "RANGE")],
            stream_view_type: "NEW_IMAGE".to_owned(),
            ttl: None,
        };
        let digits = VersionDigits::new(digits).unwrap();
        let (client, store) = runtime.block_on(async {
            let client = Client::new(&endpoint.config);
            table::ensure(&client, &settings).await.unwrap();
            let store = Store::new(client.clone(), &name, digits);
            store.claim_width().await.unwrap();
            (client, store)
        });
        Self {
            endpoint,
            name,
            client,
            store,
            runtime,
        }
    }

    pub(crate) fn start(&self, arguments: &[&str]) -> Child {
        let (environment, reached) = self.runtime.block_on(self.endpoint.reached());
        Command::new(env!("CARGO_BIN_EXE_vzero"))
            .env_clear()
            .envs(environment)
            .env("TABLE_NAME", &self.name)
            .args(reached)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        ended(self.start(arguments))
    }

    /// Makes a version, and its item.
    pub(crate) fn write(&self, json: Value) -> u64 {
        self.runtime.block_on(write(&self.store, json))
    }

    pub(crate) fn put(&self, item: Value) {
        self.runtime.block_on(async {
            let item = serde_json::from_value::<Item>(item).unwrap();
            let put = self.client.put_item().table_name(&self.name);
            put.set_item(Some(item.into())).send().await.unwrap();
        });
    }

    pub(crate) fn take_away(&self, id: &str, key: &str) {
        self.runtime.block_on(async {
            let s = |text: &str| aws_sdk_dynamodb::types::AttributeValue::S(text.to_owned());
            let delete = self.client.delete_item().table_name(&self.name);
            delete.key("PK", s(id)).key("SK", s(key)).send().await.unwrap();
        });
    }

    /// All items of an entity in DynamoDB's own JSON, by their keys.
    pub(crate) fn items(&self, id: &str) -> std::collections::BTreeMap<String, Value> {
        let items = self.runtime.block_on(self.store.scan_items()).unwrap();
        let items = items.iter().map(|item| serde_json::to_value(item).unwrap());
        let items = items.filter(|item| item["PK"]["S"] == id);
        items
            .map(|item| (item["SK"]["S"].as_str().unwrap_or_default().to_owned(), item))
            .collect()
    }

    /// What the stream does with the latest item.
    pub(crate) fn record(&self, id: &str) -> PutOutcome {
        self.runtime.block_on(record(&self.store, id))
    }
}

/// Waits for the end of a run.
pub(crate) fn ended(child: Child) -> Ran {
    let output = child.wait_with_output().unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    Ran {
        code: output.status.code().unwrap_or(-1),
        lines: lines(&stdout),
        stdout,
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

pub(crate) fn lines(stdout: &str) -> Vec<Value> {
    stdout
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect()
}

pub(crate) async fn write(store: &Store, json: Value) -> u64 {
    static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
    let id = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let update = Update::parse(json, &format!("request-{id}"), Ordering::Arrival).unwrap();
    let inline = WriteOptions {
        mode: WriteMode::Inline,
        ..WriteOptions::default()
    };
    match store.write(&update, inline).await.unwrap() {
        WriteOutcome::Written { version } => version.get(),
        outcome => panic!("{outcome:?}"),
    }
}

pub(crate) async fn record(store: &Store, id: &str) -> PutOutcome {
    let entity = EntityId::new(id).unwrap();
    let image = store
        .get(&entity, &store.digits().latest_key(), true)
        .await
        .unwrap()
        .unwrap();
    let version = VersionItem::from_image(image, store.digits()).unwrap();
    store.put_version(&version).await.unwrap()
}

pub(crate) fn latest(id: &str, number: u64) -> Value {
    json!({"PK": {"S": id}, "SK": {"S": "v0"}, "Latest": {"N": number.to_string()}, "RequestId": {"S": "r"}})
}

pub(crate) fn version(id: &str, number: u64) -> Value {
    json!({"PK": {"S": id}, "SK": {"S": format!("v{number}")}, "RequestId": {"S": "r"}})
}
