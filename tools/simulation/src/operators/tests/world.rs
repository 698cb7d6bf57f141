//! The table of a test, with what each command finds.

use std::time::Duration;

use local::mapping::{
    failure::{Failure, LastTry, Reason},
    record::Record,
};
use operations::prune::requests::{Mark, mark_version};
use serde_json::{Value, json};
use shared::{
    config::{Ordering, WriteMode, WriteOptions},
    domain::{
        entity::EntityId, keys::LATEST_KEY, quarantine::QuarantinedRecord, recorded_at::RecordedAt,
        sequence::SequenceNumber, version::Version,
    },
};
use tokio::time::sleep;
use writer_fn::{
    counter::{self, WriteOutcome},
    update::Update,
};

use super::{super::commands::create_source, SEED};
use crate::{
    mapping::identity,
    requests::text,
    schedule::{Command, Fault, Schedule, Settings, TABLE},
    stream::Written,
    world::World,
};

/// Creates a table with its stream, and its operators, who write versions in this mode.
pub(super) fn world(mode: WriteMode, faults: Vec<Fault>) -> World {
    let settings = Settings {
        write_mode: format!("{mode:?}").to_lowercase(),
        window: Some(10),
        digits: 1,
        shards: 1,
        ..Settings::default()
    };
    let schedule = Schedule {
        seed: SEED,
        settings,
        faults,
        ..Schedule::default()
    };
    let mut world = World::new(schedule, None).unwrap();
    world.operators.reads_stream = true;
    world
}

impl World {
    /// Creates versions of an entity, with their version items.
    async fn count(&self, entity: &str, versions: u64) {
        for number in 0..versions {
            let request_id = format!("{entity}-{}", self.clock.millis());
            let update = json!({"ID": entity, "Number": number});
            let update = Update::parse(update, &request_id, Ordering::Arrival).unwrap();
            let options = WriteOptions {
                mode: WriteMode::Transaction,
                ..WriteOptions::default()
            };
            let written = counter::write(&self.store, &update, options).await;
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

    /// Returns the stream records of these versions of an entity's latest item.
    fn records(&self, entity: &str, versions: &[u64]) -> Vec<Record> {
        let is_wanted = |written: &Written| {
            let latest = text(written.image(), "/Latest/N").parse();
            let is_latest = written.entity() == entity && written.key() == LATEST_KEY;
            is_latest && latest.is_ok_and(|latest: u64| versions.contains(&latest))
        };
        let written = self.connector.stream.records().into_iter().filter(is_wanted);
        let records = written.map(|written| {
            let number = SequenceNumber::new(written.number()).unwrap();
            Record::new(number, Duration::from_secs(written.created()), written.record)
        });
        // A counter that is set back has a later record.
        let records: Vec<_> = records.take(versions.len()).collect();
        assert_eq!(records.len(), versions.len(), "records of {entity}");
        records
    }

    /// Returns the failure document of these versions, with its payload as an object or as a string that contains it.
    fn document(&self, entity: &str, versions: &[u64], is_escaped: bool) -> Value {
        let failure = Failure {
            records: self.records(entity, versions),
            request_id: "request".to_owned(),
            invoke_count: 1,
            reason: Reason::RetryAttemptsExhausted(LastTry::FunctionError),
        };
        let (identity, now) = (
            identity(self.connector.stream.arn()),
            Duration::from_millis(self.clock.millis()),
        );
        let mut body = failure.document(&identity, "shard-1", now).body;
        let payload: Value = match &body["payload"] {
            Value::String(text) => serde_json::from_str(text).unwrap(),
            payload => payload.clone(),
        };
        body["payload"] = if is_escaped {
            json!(payload.to_string())
        } else {
            payload
        };
        body
    }

    /// Puts the stream records of these versions into quarantine.
    async fn quarantine(&self, id: &str, versions: &[u64]) {
        for (record, number) in self.records(id, versions).iter().zip(versions) {
            let quarantined = QuarantinedRecord {
                entity: EntityId::new(id).unwrap(),
                number: record.sequence_number().clone(),
                kind: "Conflict".to_owned(),
                reason: "a different item is stored as its version".to_owned(),
                version: Version::new(*number),
                at: RecordedAt::parse("2026-01-01T00:00:00Z").ok(),
                record: record.json().to_string(),
            };
            assert!(self.store.quarantine(&quarantined).await.unwrap());
        }
    }

    /// Returns the items without their times: an interrupted command ends later.
    pub(super) fn table(&self) -> Vec<Value> {
        const TIMES: [&str; 8] = [
            "RecordedAt",
            "RecordedTick",
            "RequestsSince",
            "RequestsDropped",
            "RequestsAhead",
            "PurgedAt",
            "TTL",
            "V0Id",
        ];
        let mut items = self.connector.scan(TABLE).unwrap();
        for item in &mut items {
            for name in TIMES {
                if let Some(value) = item.get_mut(name) {
                    *value = json!("a time");
                }
            }
            // The last digits of an entry are the time at which the request was sent.
            let requests = item.pointer_mut("/RecentRequests/M").and_then(Value::as_object_mut);
            for (_, request) in requests.into_iter().flatten() {
                let number = request["N"].as_str().unwrap_or_default();
                let (version, fraction) = number.split_once('.').unwrap_or((number, ""));
                let check = fraction.get(..5).unwrap_or(fraction);
                *request = json!({"N": format!("{version}.{check}")});
            }
        }
        items
    }

    /// Prepares the table for a command, and returns the failure documents that it reads.
    pub(super) async fn prepare(&self, command: &Command) -> Vec<Value> {
        match command {
            Command::Prune(..) | Command::PruneTable(_) => {
                for entity in ["A", "B"] {
                    self.count(entity, 5).await;
                }
                let (entity, now) = (EntityId::new("A").unwrap(), self.store.clock().now());
                assert!(
                    mark_version(&self.store, &entity, Version::FIRST, Mark::Pinned { now })
                        .await
                        .unwrap()
                );
            }
            Command::Revive => {
                // Versions that failure documents, the stream and the latest item contain.
                self.count("A", 6).await;
                self.delete("A", &["v2", "v3", "v5", "v6"]);
                // A latest item that lost its counter, one whose counter was set back, and one that was deleted.
                for entity in ["B", "C", "D"] {
                    self.count(entity, 3).await;
                }
                for (entity, latest) in [("B", None), ("C", Some("1"))] {
                    let mut item = self.item("GetItem", entity, LATEST_KEY)["Item"].clone();
                    item.as_object_mut().unwrap().remove("Latest");
                    if let Some(latest) = latest {
                        item["Latest"] = json!({"N": latest});
                    }
                    self.connector.put(TABLE, &item).unwrap();
                }
                self.delete("D", &[LATEST_KEY]);
                // A record in quarantine whose version is missing.
                self.count("E", 2).await;
                self.delete("E", &["v1"]);
                self.quarantine("E", &[1]).await;
                return vec![self.document("A", &[2, 3], true)];
            }
            Command::Purge(_) => {
                self.count("A", 30).await;
                self.count("B", 1).await;
                self.quarantine("A", &[3]).await;
            }
            Command::Redrive => {
                self.count("A", 5).await;
                self.count("B", 2).await;
                self.delete("A", &["v1", "v2", "v4"]);
                self.delete("B", &["v1", "v2"]);
                for entity in ["C", "D"] {
                    self.count(entity, 4).await;
                    self.quarantine(entity, &[2, 3]).await;
                    self.delete(entity, &["v2", "v3"]);
                }
                let of = |entity, versions: &[u64], is_escaped| self.document(entity, versions, is_escaped);
                return vec![of("A", &[1, 2], false), of("A", &[4], true), of("B", &[1, 2], false)];
            }
            Command::Backfill(number) => {
                let item = |name: &str| json!({"PK": {"S": name}, "Value": {"S": "old"}});
                let items = ["A", "B", "C", "D", "E"].map(item);
                create_source(&self.connector, &format!("Source{number}"), &items).unwrap();
            }
            Command::Adopt => {
                for name in ["A", "B", "C", "D"] {
                    let mut item = json!({"PK": {"S": name}, "SK": {"S": LATEST_KEY}, "Value": {"S": "old"}});
                    if name == "D" {
                        item["RequestId"] = json!({"S": "own"});
                    }
                    self.connector.put(TABLE, &item).unwrap();
                }
            }
            _ => {}
        }
        Vec::new()
    }
}
