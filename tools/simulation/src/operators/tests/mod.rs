//! Commands on a small table, in virtual time. The functions do not run: a test prepares the table with the library.
//!
//! The recorder is the HTTP client of the operators: it sees all their requests in order, and interrupts a command at one of
//! them.
#![allow(clippy::unwrap_used, reason = "in a test, a panic is the message")]

mod commands;
mod interruptions;
mod recorder;

use std::{sync::Arc, time::Duration};

use aws_sdk_dynamodb::config::SharedHttpClient;
use dynoxide::Database;
use local::mapping::{
    Identity,
    failure::{Failure, LastTry, Reason},
    record::Record,
};
use serde_json::{Value, json};
use shared::{
    domain::{
        entity::EntityId,
        keys::{LATEST_KEY, VersionDigits},
        quarantine::QuarantinedRecord,
        recorded_at::RecordedAt,
        sequence::SequenceNumber,
        update::{Ordering, Update},
        version::Version,
    },
    dynamodb::{
        Store,
        read::history::HistoryQuery,
        write::{WriteMode, WriteOptions, WriteOutcome},
    },
};
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use self::recorder::{Interruption, Recorder};
use super::{
    Operators,
    queues::MemoryQueues,
    services::{ExternalServices, ServiceConnector},
};
use crate::{clock::Clock, connector::Connector, schedule::TABLE, setup::dynamodb_client};

const UPDATES: &str = "http://sqs.simulated/1/updates";
const DEAD_LETTERS: &str = "http://sqs.simulated/1/dead-letters";

/// A table with its stream, a writer, and the operators.
struct World {
    clock: Clock,
    connector: Connector,
    store: Store,
    stream_arn: String,
    queues: MemoryQueues,
    recorder: Recorder,
    operators: Operators,
    /// Folder of the states of the commands, if they resume.
    _folder: Option<TempDir>,
}

/// Runs a future in virtual time. The seed determines it completely.
fn simulate<T>(seed: u64, future: impl Future<Output = T>) -> T {
    fastrand::seed(seed);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build();
    runtime.unwrap().block_on(future)
}

impl World {
    fn new(seed: u64) -> Self {
        let clock = Clock(Instant::now());
        let database = Database::memory_with_clock(Arc::new(clock)).unwrap();
        let connector = Connector::new(database, seed, Vec::new(), None);
        let created = connector.send(
            "CreateTable",
            json!({
                "TableName": TABLE, "BillingMode": "PAY_PER_REQUEST",
                "AttributeDefinitions": [{"AttributeName": "PK", "AttributeType": "S"}, {"AttributeName": "SK", "AttributeType": "S"}],
                "KeySchema": [{"AttributeName": "PK", "KeyType": "HASH"}, {"AttributeName": "SK", "KeyType": "RANGE"}],
                "StreamSpecification": {"StreamEnabled": true, "StreamViewType": "NEW_IMAGE"},
            }),
        );
        let created = created.unwrap();
        let stream_arn = created["TableDescription"]["LatestStreamArn"]
            .as_str()
            .unwrap()
            .to_owned();
        connector.open_stream(&stream_arn, 1).unwrap();
        let digits = VersionDigits::default();
        let queues = MemoryQueues::new(clock, [(DEAD_LETTERS.to_owned(), vec![UPDATES.to_owned()])]);
        let services = ExternalServices::new(queues.clone());
        let recorder = Recorder::new(ServiceConnector::new(connector.clone(), services.clone()));
        let http = SharedHttpClient::new(recorder.clone());
        Self {
            clock,
            store: Store::new(dynamodb_client(&connector), TABLE, digits).with_clock(clock.shifted(0)),
            stream_arn,
            queues,
            operators: Operators::with_http(http, clock.shifted(0), digits, services),
            recorder,
            connector,
            _folder: None,
        }
    }

    /// Creates a table whose operators resume an interrupted command.
    fn with_checkpoints(seed: u64) -> Self {
        let (world, folder) = (Self::new(seed), tempfile::tempdir().unwrap());
        Self {
            operators: world.operators.with_checkpoints(folder.path().to_owned()),
            _folder: Some(folder),
            ..world
        }
    }

    /// Creates versions of an entity, with their version items.
    async fn write(&self, entity: &str, versions: u64) {
        for number in 0..versions {
            let request_id = format!("{entity}-{}", self.clock.millis());
            let update = json!({"ID": entity, "Number": number});
            let update = Update::parse(update, &request_id, Ordering::Arrival).unwrap();
            let options = options_of(WriteMode::Transaction);
            let written = self.store.write(&update, options).await;
            assert!(matches!(written, Ok(WriteOutcome::Written { .. })), "{written:?}");
            sleep(Duration::from_millis(10)).await;
        }
    }

    /// Sends a request for one item, without the operators.
    fn item(&self, operation: &'static str, entity: &str, sort_key: &str) -> Value {
        let key = json!({"PK": {"S": entity}, "SK": {"S": sort_key}});
        let request = json!({"TableName": TABLE, "Key": key});
        self.connector.send(operation, request).unwrap()
    }

    fn delete(&self, entity: &str, sort_keys: &[&str]) {
        for sort_key in sort_keys {
            self.item("DeleteItem", entity, sort_key);
        }
    }

    fn put(&self, item: &Value) {
        let request = json!({"TableName": TABLE, "Item": item});
        self.connector.send("PutItem", request).unwrap();
    }

    fn items(&self) -> Vec<Value> {
        let scanned = self.connector.send("Scan", json!({"TableName": TABLE})).unwrap();
        scanned["Items"].as_array().cloned().unwrap_or_default()
    }

    /// Returns the versions that a reader sees now, the oldest first.
    async fn history(&self, id: &str) -> Vec<u64> {
        let query = HistoryQuery {
            oldest_first: true,
            ..HistoryQuery::default()
        };
        let history = self.store.history(&entity(id), query).await.unwrap();
        let views = history.unwrap().collect().await.unwrap();
        views.iter().map(|view| view.version.get()).collect()
    }

    /// Returns the stream records of these versions of an entity's latest item.
    fn records(&self, entity: &str, versions: &[u64]) -> Vec<Record> {
        let mut records: Vec<_> = (self.connector.stream().records().into_iter())
            .map(|written| {
                let change = &written.record["dynamodb"];
                let number = SequenceNumber::new(change["SequenceNumber"].as_str().unwrap()).unwrap();
                let created = change["ApproximateCreationDateTime"].as_u64().unwrap();
                Record::new(number, Duration::from_secs(created), written.record)
            })
            .collect();
        let is_wanted = |record: &Record| {
            let image = &record.json()["dynamodb"]["NewImage"];
            let latest = image["Latest"]["N"].as_str().and_then(|number| number.parse().ok());
            let is_latest = image["PK"]["S"] == entity && image["SK"]["S"] == LATEST_KEY;
            is_latest && latest.is_some_and(|latest: u64| versions.contains(&latest))
        };
        records.retain(is_wanted);
        // A counter that is set back has a later record.
        records.truncate(versions.len());
        assert_eq!(records.len(), versions.len(), "records of {entity}");
        records
    }

    /// Returns the failure document of these versions, with its payload as an object.
    fn document(&self, entity: &str, versions: &[u64]) -> Value {
        let failure = Failure {
            identity: &Identity {
                uuid: "mapping".to_owned(),
                function_arn: "function".to_owned(),
                stream_arn: self.stream_arn.clone(),
            },
            shard: "shard-1",
            records: &self.records(entity, versions),
            request_id: "request".to_owned(),
            invoke_count: 1,
            reason: Reason::RetryAttemptsExhausted(LastTry::FunctionError),
            now: Duration::from_millis(self.clock.millis()),
            id: "document".to_owned(),
        };
        let mut body = failure.document().body;
        if let Some(text) = body["payload"].as_str() {
            body["payload"] = serde_json::from_str(text).unwrap();
        }
        body
    }

    /// Puts the stream records of these versions into quarantine.
    async fn quarantine(&self, id: &str, versions: &[u64]) {
        for (record, number) in self.records(id, versions).iter().zip(versions) {
            let quarantined = QuarantinedRecord {
                entity: entity(id),
                number: record.sequence_number().clone(),
                kind: "Conflict".to_owned(),
                reason: "a different item is stored as its version".to_owned(),
                version: Some(version(*number)),
                at: RecordedAt::parse("2026-01-01T00:00:00Z").ok(),
                record: record.json().to_string(),
            };
            assert!(self.store.quarantine(&quarantined).await.unwrap());
        }
    }

    /// Runs a command that is interrupted at the request with this index.
    async fn interrupted<T>(&self, at: usize, interruption: Interruption, command: impl Future<Output = T>) -> T {
        self.recorder.interrupt(at, interruption);
        let result = command.await;
        self.recorder.end_interruption();
        result
    }
}

/// Returns the document with its payload as an escaped string.
fn escaped(mut document: Value) -> Value {
    document["payload"] = json!(document["payload"].to_string());
    document
}

fn entity(id: &str) -> EntityId {
    EntityId::new(id).unwrap()
}

fn version(number: u64) -> Version {
    Version::new(number).unwrap()
}

fn options_of(mode: WriteMode) -> WriteOptions {
    WriteOptions {
        mode,
        ..WriteOptions::default()
    }
}
