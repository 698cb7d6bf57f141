//! A command that is interrupted at any of its writes, and then repeated, leaves the same table as one that was not.
//!
//! The functions do not run: a test prepares the table with the library, in virtual time.
#![allow(clippy::unwrap_used, reason = "in a test, a panic is the message")]

use std::time::Duration;

use local::mapping::{
    Identity,
    failure::{Failure, LastTry, Reason},
    record::Record,
};
use operations::{
    error::{Kind, OperationError},
    prune::{Options, Rule, requests::pin_version},
    purge::entity::DEFAULT_WAIT,
};
use serde_json::{Value, json};
use shared::{
    config::{Ordering, WriteMode, WriteOptions},
    domain::{
        entity::EntityId,
        keys::{LATEST_KEY, VersionDigits},
        quarantine::QuarantinedRecord,
        recorded_at::RecordedAt,
        sequence::SequenceNumber,
        version::Version,
    },
    dynamodb::Store,
};
use tempfile::TempDir;
use tokio::time::{Instant, sleep};
use writer_fn::{
    counter::{self, WriteOutcome},
    update::Update,
};

use super::{CommandEnd, DEAD_LETTERS, Desk, UPDATES, create_source, is_done};
use crate::{
    clock::{Clock, in_virtual_time},
    connector::Connector,
    schedule::{Fault, FaultKind, Point, TABLE},
    setup::dynamodb_client,
};

const SEED: u64 = 7;
const OTHER_TABLE: &str = "Items";
/// Maximum number of repetitions until a command reports that nothing is left to do.
const MAX_REPETITIONS: usize = 4;
/// Faults of a request, each with the number of requests that it lasts for: the process ends before or after the request is executed,
/// or the response of this request is lost, or those of all later ones, too.
const INTERRUPTIONS: [(FaultKind, u32); 4] = [
    (FaultKind::KilledBefore, 1),
    (FaultKind::KilledAfter, 1),
    (FaultKind::ErrorAfter, 1),
    (FaultKind::ErrorAfter, 1_000_000),
];

/// A table with its stream, a writer, and the operators.
struct World {
    clock: Clock,
    connector: Connector,
    store: Store,
    desk: Desk,
    /// Folder of the states of the commands, if they resume.
    _folder: Option<TempDir>,
}

impl World {
    fn new(faults: Vec<Fault>) -> Self {
        let clock = Clock(Instant::now());
        let connector = Connector::new(clock.database().unwrap(), SEED, faults, None);
        let stream = connector.create_table(TABLE, &["PK", "SK"], Some("NEW_IMAGE")).unwrap();
        connector.open_stream(&stream, 1).unwrap();
        let digits = VersionDigits::default();
        Self {
            clock,
            store: Store::new(dynamodb_client(&connector), TABLE, digits).with_clock(clock.shifted(0)),
            desk: Desk::new(&connector, clock, digits, None),
            connector,
            _folder: None,
        }
    }

    /// Creates a table whose operators resume an interrupted command.
    fn with_checkpoints(faults: Vec<Fault>) -> Self {
        let (mut world, folder) = (Self::new(faults), tempfile::tempdir().unwrap());
        world.desk.operators.checkpoints = Some(folder.path().to_owned());
        Self {
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
            let written = counter::write(&self.store, &update, options_of(WriteMode::Transaction)).await;
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
        self.connector.put(TABLE, item).unwrap();
    }

    /// Returns the stream records of these versions of an entity's latest item.
    fn records(&self, entity: &str, versions: &[u64]) -> Vec<Record> {
        let is_wanted = |record: &Value| {
            let image = &record["dynamodb"]["NewImage"];
            let latest = image["Latest"]["N"].as_str().and_then(|number| number.parse().ok());
            let is_latest = image["PK"]["S"] == entity && image["SK"]["S"] == LATEST_KEY;
            is_latest && latest.is_some_and(|latest: u64| versions.contains(&latest))
        };
        let written = self.connector.stream().records().into_iter();
        let records = written.map(|written| written.record).filter(is_wanted).map(|record| {
            let change = &record["dynamodb"];
            let number = SequenceNumber::new(change["SequenceNumber"].as_str().unwrap()).unwrap();
            let created = change["ApproximateCreationDateTime"].as_u64().unwrap();
            Record::new(number, Duration::from_secs(created), record)
        });
        // A counter that is set back has a later record.
        let records: Vec<_> = records.take(versions.len()).collect();
        assert_eq!(records.len(), versions.len(), "records of {entity}");
        records
    }

    /// Returns the failure document of these versions, with its payload as an object or as a string that contains it.
    fn document(&self, entity: &str, versions: &[u64], is_escaped: bool) -> Value {
        let failure = Failure {
            identity: &Identity {
                uuid: "mapping".to_owned(),
                function_arn: "function".to_owned(),
                stream_arn: self.connector.stream().arn(),
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
                entity: entity(id),
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
    fn table(&self) -> Vec<Value> {
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
}

fn entity(id: &str) -> EntityId {
    EntityId::new(id).unwrap()
}

fn options_of(mode: WriteMode) -> WriteOptions {
    WriteOptions {
        mode,
        ..WriteOptions::default()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Command {
    Prune,
    PruneTable,
    Repair,
    Purge,
    Redrive,
    RedriveQuarantine,
    Backfill(WriteMode),
    BackfillInPlace(WriteMode),
}

impl Command {
    async fn prepare(self, world: &World) {
        match self {
            Self::Prune | Self::PruneTable => {
                for entity in ["A", "B"] {
                    world.write(entity, 5).await;
                }
                let now = world.store.clock().now();
                let pinned = pin_version(&world.store, &entity("A"), Version::FIRST, now).await;
                assert!(pinned.unwrap());
            }
            Self::Repair => {
                // Versions that failure documents, the stream and the latest item contain.
                world.write("A", 6).await;
                world.delete("A", &["v2", "v3", "v5", "v6"]);
                // A latest item that lost its counter, one whose counter was set back, and one that was deleted.
                for entity in ["B", "C", "D"] {
                    world.write(entity, 3).await;
                }
                for (entity, latest) in [("B", None), ("C", Some("1"))] {
                    let mut item = world.item("GetItem", entity, LATEST_KEY)["Item"].clone();
                    item.as_object_mut().unwrap().remove("Latest");
                    if let Some(latest) = latest {
                        item["Latest"] = json!({"N": latest});
                    }
                    world.put(&item);
                }
                world.delete("D", &[LATEST_KEY]);
                // A record in quarantine whose version is missing.
                world.write("E", 2).await;
                world.delete("E", &["v1"]);
                world.quarantine("E", &[1]).await;
            }
            Self::Purge => {
                world.write("A", 30).await;
                world.write("B", 1).await;
                world.quarantine("A", &[3]).await;
            }
            Self::Redrive => {
                world.write("A", 5).await;
                world.write("B", 2).await;
                world.delete("A", &["v1", "v2", "v4"]);
                world.delete("B", &["v1", "v2"]);
            }
            Self::RedriveQuarantine => {
                for entity in ["A", "B"] {
                    world.write(entity, 4).await;
                    world.quarantine(entity, &[2, 3]).await;
                    world.delete(entity, &["v2", "v3"]);
                }
            }
            Self::Backfill(_) => {
                let item = |name: &str| json!({"PK": {"S": name}, "Value": {"S": "old"}});
                let items = ["A", "B", "C", "D", "E"].map(item);
                create_source(&world.connector, OTHER_TABLE, &items).unwrap();
            }
            Self::BackfillInPlace(_) => {
                for name in ["A", "B", "C", "D"] {
                    let mut item = json!({"PK": {"S": name}, "SK": {"S": LATEST_KEY}, "Value": {"S": "old"}});
                    if name == "D" {
                        item["RequestId"] = json!({"S": "own"});
                    }
                    world.put(&item);
                }
            }
        }
    }

    async fn run(self, world: &World) -> CommandEnd {
        let operators = &world.desk.operators;
        let options = Options {
            rule: Rule::Keep(2),
            grace: Duration::from_secs(30 * 86_400),
            over_gaps: false,
            dry_run: false,
        };
        match self {
            Self::Prune => operators.prune("A", options).await,
            Self::PruneTable => operators.prune_table(options).await,
            Self::Repair => {
                let documents = [world.document("A", &[2, 3], true)];
                operators
                    .repair(&documents, (true, true), Duration::from_secs(60))
                    .await
            }
            Self::Purge => operators.purge("A", DEFAULT_WAIT).await,
            Self::Redrive => {
                let documents = [
                    world.document("A", &[1, 2], false),
                    world.document("A", &[4], true),
                    world.document("B", &[1, 2], false),
                ];
                operators.redrive(&documents).await
            }
            Self::RedriveQuarantine => operators.redrive_quarantine().await,
            Self::Backfill(mode) => {
                let options = options_of(mode);
                operators.backfill(OTHER_TABLE, Ordering::Arrival, options).await
            }
            Self::BackfillInPlace(mode) => operators.backfill(TABLE, Ordering::Arrival, options_of(mode)).await,
        }
    }

    /// Repeats the command until nothing is left to do.
    async fn repeat(self, world: &World) {
        let mut last = None;
        for _ in 0..MAX_REPETITIONS {
            let end = self.run(world).await;
            let is_missing = |error: &OperationError| error.kind() == Kind::NotFound;
            let is_purged = matches!(&end, Some(Err(error)) if is_missing(error)) && self == Self::Purge;
            if is_done(&end) || is_purged {
                return;
            }
            last = Some(end);
        }
        panic!("{self:?} does not end: {last:?}");
    }
}

/// Returns the table after an undisturbed command.
fn undisturbed(command: Command) -> Vec<Value> {
    let run = in_virtual_time(SEED, async {
        let world = World::new(Vec::new());
        command.prepare(&world).await;
        command.run(&world).await;
        command.repeat(&world).await;
        let audited = world.desk.operators.audit(Duration::ZERO).await;
        if !matches!(
            command,
            Command::Backfill(WriteMode::Stream) | Command::BackfillInPlace(WriteMode::Stream)
        ) {
            assert_eq!(audited, Vec::<Value>::new(), "{command:?}");
        }
        world.table()
    });
    run.unwrap()
}

/// Interrupts a command at each of its writes, in all ways.
fn every_interruption(command: Command, create: fn(Vec<Fault>) -> World) {
    let expected = undisturbed(command);
    let is_interrupted = |nth, (kind, times)| {
        let fault = Fault {
            on: Point::OperatorWrite,
            nth,
            times,
            kind,
        };
        let run = in_virtual_time(SEED, async {
            let name = format!("{command:?}: {fault:?}");
            let world = create(vec![fault]);
            command.prepare(&world).await;
            let end = Box::pin(command.run(&world)).await;
            if !world.connector.faults().contains_key(&kind.name()) {
                return false;
            }
            if is_done(&end) {
                assert_eq!(world.table(), expected, "{name} was not done");
            }
            world.connector.stop_faults().await;
            command.repeat(&world).await;
            assert_eq!(world.table(), expected, "{name}: {end:?}");
            assert_eq!(end.is_none(), kind != FaultKind::ErrorAfter, "{name}");
            true
        });
        run.unwrap()
    };
    let interrupted = (0..).take_while(|nth| INTERRUPTIONS.map(|way| is_interrupted(*nth, way)) == [true; 4]);
    let writes = interrupted.count();
    assert!(writes >= 3, "{command:?} has {writes} writes");
}

#[test]
fn an_interrupted_prune_can_be_repeated() {
    every_interruption(Command::Prune, World::new);
    every_interruption(Command::PruneTable, World::new);
    every_interruption(Command::PruneTable, World::with_checkpoints);
}

#[test]
fn an_interrupted_repair_can_be_repeated() {
    every_interruption(Command::Repair, World::new);
}

#[test]
fn an_interrupted_purge_can_be_repeated() {
    every_interruption(Command::Purge, World::new);
}

#[test]
fn an_interrupted_redrive_can_be_repeated() {
    every_interruption(Command::Redrive, World::new);
    every_interruption(Command::RedriveQuarantine, World::new);
}

#[test]
fn an_interrupted_backfill_can_be_repeated() {
    every_interruption(Command::Backfill(WriteMode::Stream), World::with_checkpoints);
    for mode in [WriteMode::Stream, WriteMode::Inline, WriteMode::Transaction] {
        every_interruption(Command::Backfill(mode), World::new);
        every_interruption(Command::BackfillInPlace(mode), World::new);
    }
}

/// The two messages of the dead-letter queue: one that names its request, and one whose request is its message.
const LETTERS: [&str; 2] = [
    r#"{"ID": "A", "State": "OK", "RequestId": "r-1"}"#,
    r#"{"ID": "B", "State": "OK"}"#,
];

#[test]
fn an_interrupted_redrive_of_updates_sends_each_with_one_request_id() {
    let is_interrupted = |nth, (kind, times)| {
        let fault = Fault {
            on: Point::External,
            nth,
            times,
            kind,
        };
        let run = in_virtual_time(SEED, async {
            let name = format!("{fault:?}");
            let world = World::new(vec![fault]);
            let Desk { queues, operators } = &world.desk;
            for letter in LETTERS {
                queues.send(DEAD_LETTERS, letter.to_owned());
            }
            let _ = Box::pin(operators.redrive_queue(DEAD_LETTERS)).await;
            let is_interrupted = world.connector.faults().contains_key(&kind.name());
            world.connector.stop_faults().await;
            for _ in 0..MAX_REPETITIONS {
                // A message is hidden until its visibility timeout, if the command was killed.
                sleep(Duration::from_secs(1000)).await;
                if is_done(&operators.redrive_queue(DEAD_LETTERS).await) && queues.messages(DEAD_LETTERS).is_empty() {
                    break;
                }
            }
            assert_eq!(queues.messages(DEAD_LETTERS), [], "{name}");
            let mut ids: Vec<_> = (queues.messages(UPDATES).iter())
                .map(|letter| serde_json::from_str::<Value>(&letter.body).unwrap()["RequestId"].clone())
                .collect();
            ids.sort_by_key(Value::to_string);
            ids.dedup();
            assert_eq!(ids, [json!("message-2"), json!("r-1")], "{name}");
            is_interrupted
        });
        run.unwrap()
    };
    let interrupted = (0..).take_while(|nth| INTERRUPTIONS.map(|way| is_interrupted(*nth, way)) == [true; 4]);
    assert!(interrupted.count() > 5);
}
