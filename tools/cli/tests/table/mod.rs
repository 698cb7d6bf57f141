//! A table of its own, the command run on it as its user runs it, and failure documents as the mapping
//! writes them.

#![allow(dead_code, reason = "each test uses a part of it")]

use std::{
    process::{Child, Command, Stdio},
    time::Duration,
};

use aws_sdk_dynamodb::Client;
use local::{
    dynamodb::{stream::TableStream, table},
    mapping::{
        Identity,
        failure::{Document, Failure, Reason},
        position::Position,
        record::Record,
        source::Source as _,
    },
};
use serde_json::{Value, json};
use shared::domain::{Item, number::Decimal};

use crate::endpoint::Endpoint;

pub(crate) struct Table {
    pub(crate) endpoint: Endpoint,
    pub(crate) name: String,
    pub(crate) runtime: tokio::runtime::Runtime,
    client: Client,
    stream: TableStream,
    pub(crate) stream_arn: String,
}

/// What a run of the command came to.
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) answer: Value,
    pub(crate) stderr: String,
}

impl Table {
    pub(crate) fn new() -> Self {
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
        let client = Client::new(&endpoint.config);
        let stream_arn = runtime.block_on(table::ensure(&client, &settings)).unwrap();
        let streams = aws_sdk_dynamodbstreams::Client::new(&endpoint.config);
        Self {
            stream: TableStream::new(streams, stream_arn.clone()),
            endpoint,
            name,
            runtime,
            client,
            stream_arn,
        }
    }

    pub(crate) fn start(&self, arguments: &[&str]) -> Child {
        let (environment, reached) = self.runtime.block_on(self.endpoint.reached());
        let mut command = Command::new(env!("CARGO_BIN_EXE_vzero"));
        command
            .env_clear()
            .envs(environment)
            .env("TABLE_NAME", &self.name)
            .args(reached)
            .args(arguments);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        let output = self.start(arguments).wait_with_output().unwrap();
        let stdout = String::from_utf8(output.stdout).unwrap();
        assert!(stdout.lines().count() <= 1, "{stdout}");
        Ran {
            code: output.status.code().unwrap(),
            answer: serde_json::from_str(&stdout).unwrap_or_default(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// A run that ends with this code, and each line of its answer.
    pub(crate) fn lines(&self, arguments: &[&str], code: i32) -> Vec<Value> {
        let output = self.start(arguments).wait_with_output().unwrap();
        let (stdout, stderr) = (
            String::from_utf8(output.stdout).unwrap(),
            String::from_utf8(output.stderr).unwrap(),
        );
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {stdout} {stderr}");
        stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// A run that ends with this code, and what it answers.
    pub(crate) fn answer(&self, arguments: &[&str], code: i32) -> Value {
        let ran = self.run(arguments);
        assert_eq!(ran.code, code, "{arguments:?}: {} {}", ran.answer, ran.stderr);
        ran.answer
    }

    /// Makes so many versions of an entity, of which the stream alone knows.
    pub(crate) fn write(&self, id: &str, versions: usize) {
        for n in 0..versions {
            self.answer(&["put", id, "--set-json", &format!("N={n}.10")], 0);
        }
    }

    /// The records of latest items, oldest first: those that the mapping's filter lets through.
    pub(crate) fn records(&self) -> Vec<Record> {
        let read = async {
            let mut records = Vec::new();
            let shard = self.shard().await;
            let mut iterator = self.stream.iterator(&shard, &Position::TrimHorizon).await.unwrap();
            loop {
                let page = self.stream.read(&iterator).await.unwrap();
                if page.records.is_empty() {
                    return records;
                }
                records.extend(page.records);
                iterator = page.next.unwrap();
            }
        };
        let mut records = self.runtime.block_on(read);
        records.retain(|record| record.json()["dynamodb"]["NewImage"]["SK"]["S"] == "v0");
        records
    }

    async fn shard(&self) -> String {
        self.stream.shards().await.unwrap()[0].id.clone()
    }

    /// The document that these records end in, under a key of its own.
    pub(crate) fn document(&self, records: &[Record]) -> Document {
        let failure = Failure {
            identity: &Identity {
                uuid: "00000000-0000-0000-0000-000000000000".to_owned(),
                function_arn: "arn:aws:lambda:us-east-1:000000000000:function:stream-fn".to_owned(),
                stream_arn: self.stream_arn.clone(),
            },
            shard: &self.runtime.block_on(self.shard()),
            records,
            reason: Reason::RetryAttemptsExhausted {
                request_id: "r".to_owned(),
                invoke_count: 11,
                function_error: false,
            },
            now: Duration::from_secs(1_700_000_000),
            id: uuid::Uuid::new_v4().to_string(),
        };
        failure.document()
    }

    pub(crate) fn put(&self, item: Value) {
        let item: Item = serde_json::from_value(item).unwrap();
        let request = self
            .client
            .put_item()
            .table_name(&self.name)
            .set_item(Some(item.into()));
        self.runtime.block_on(request.send()).unwrap();
    }

    pub(crate) fn delete(&self, pk: &str, sk: &str) {
        let key = |text: &str| aws_sdk_dynamodb::types::AttributeValue::S(text.to_owned());
        let request = self.client.delete_item().table_name(&self.name);
        let request = request.key("PK", key(pk)).key("SK", key(sk));
        self.runtime.block_on(request.send()).unwrap();
    }

    /// Every item but the table's settings, by its key, as DynamoDB JSON.
    pub(crate) fn items(&self) -> std::collections::BTreeMap<String, Value> {
        let request = self.client.scan().table_name(&self.name).consistent_read(true);
        let scanned = self
            .runtime
            .block_on(request.into_paginator().items().send().collect::<Result<Vec<_>, _>>());
        let items = scanned.unwrap().into_iter().map(|item| {
            let item = serde_json::to_value(Item::from(item)).unwrap();
            (
                format!(
                    "{} {}",
                    item["PK"]["S"].as_str().unwrap(),
                    item["SK"]["S"].as_str().unwrap()
                ),
                item,
            )
        });
        items.filter(|(key, _)| !key.starts_with("#vzero")).collect()
    }

    /// How many version items there are.
    pub(crate) fn versions(&self) -> usize {
        self.items().keys().filter(|key| !key.ends_with(" v0")).count()
    }
}

/// A number of DynamoDB's JSON by its value: not every engine writes it in one way.
pub(crate) fn number(value: &Value) -> String {
    Decimal::parse(value["N"].as_str().unwrap()).unwrap().canonical()
}

/// Some members of a summary.
pub(crate) fn counts(answer: &Value, names: &[&str]) -> Value {
    json!(names.iter().map(|name| answer[*name].clone()).collect::<Vec<_>>())
}

/// The actions of a statement in `docs/security.md`, those that begin so.
pub(crate) fn documented(sid: &str, beginning: &[&str]) -> std::collections::BTreeSet<String> {
    let page = include_str!("../../../../docs/security.md");
    let blocks = page
        .split("```json\n")
        .skip(1)
        .filter_map(|rest| rest.split_once("\n```"));
    let statements = blocks.flat_map(|(block, _)| {
        let policy: Value = serde_json::from_str(block).unwrap();
        policy["Statement"].as_array().unwrap().clone()
    });
    let of_sid = statements.filter(|statement| statement["Sid"].as_str().unwrap().starts_with(sid));
    let actions = of_sid.flat_map(|statement| statement["Action"].as_array().unwrap().clone());
    let actions = actions.map(|action| action.as_str().unwrap().to_owned());
    actions
        .filter(|action| beginning.iter().any(|beginning| action.starts_with(beginning)))
        .collect()
}
