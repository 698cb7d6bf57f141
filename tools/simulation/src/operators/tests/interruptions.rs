//! A command that is interrupted at any of its requests, and then repeated, leaves the same table as one that was not.

use std::time::Duration;

use operations::{
    error::Kind,
    prune::{Options, Rule},
    redrive::Dropped,
    repair::Scope,
};
use serde_json::{Value, json};
use shared::{
    domain::{keys::LATEST_KEY, update::Ordering},
    dynamodb::write::WriteMode,
};

use super::{
    super::{
        backfill::create_source,
        queues::Queues as _,
        repair::RepairOptions,
        result::{End, OperatorResult},
    },
    DEAD_LETTERS, Interruption, UPDATES, World, entity, escaped, options_of,
    recorder::Request,
    simulate, version,
};
use crate::schedule::TABLE;

const SEED: u64 = 7;
const OTHER_TABLE: &str = "Items";
/// Maximum number of repetitions until a command reports that nothing is left to do.
const MAX_REPETITIONS: usize = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Command {
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
    pub(super) const ALL: [Self; 12] = [
        Self::Prune,
        Self::PruneTable,
        Self::Repair,
        Self::Purge,
        Self::Redrive,
        Self::RedriveQuarantine,
        Self::Backfill(WriteMode::Stream),
        Self::Backfill(WriteMode::Inline),
        Self::Backfill(WriteMode::Transaction),
        Self::BackfillInPlace(WriteMode::Stream),
        Self::BackfillInPlace(WriteMode::Inline),
        Self::BackfillInPlace(WriteMode::Transaction),
    ];

    pub(super) async fn prepare(self, world: &World) {
        match self {
            Self::Prune | Self::PruneTable => {
                for entity in ["A", "B"] {
                    world.write(entity, 5).await;
                }
                assert!(
                    operations::prune::requests::pin_version(
                        &world.store,
                        &entity("A"),
                        version(1),
                        world.store.clock().now()
                    )
                    .await
                    .unwrap()
                );
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
                let items: Vec<_> = ["A", "B", "C", "D", "E"].map(item).into();
                create_source(&world.connector, OTHER_TABLE, &items).unwrap();
            }
            Self::BackfillInPlace(_) => {
                for name in ["A", "B", "C"] {
                    world.put(&json!({"PK": {"S": name}, "SK": {"S": LATEST_KEY}, "Value": {"S": "old"}}));
                }
                world.put(&json!({
                    "PK": {"S": "D"}, "SK": {"S": LATEST_KEY}, "Value": {"S": "old"}, "RequestId": {"S": "own"},
                }));
            }
        }
    }

    pub(super) async fn run(self, world: &World) -> OperatorResult {
        let operators = &world.operators;
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
                let documents = [escaped(world.document("A", &[2, 3]))];
                let options = RepairOptions {
                    stream: true,
                    revive: true,
                    ..RepairOptions::default()
                };
                operators.repair(Scope::Table, &documents, options).await
            }
            Self::Purge => operators.purge_with("A", operations::purge::entity::DEFAULT_WAIT).await,
            Self::Redrive => {
                let documents = [
                    world.document("A", &[1, 2]),
                    escaped(world.document("A", &[4])),
                    world.document("B", &[1, 2]),
                ];
                operators.redrive(&documents).await
            }
            Self::RedriveQuarantine => operators.redrive_quarantine(None, Dropped::default()).await,
            Self::Backfill(mode) => {
                operators
                    .backfill(OTHER_TABLE, Ordering::Arrival, options_of(mode))
                    .await
            }
            Self::BackfillInPlace(mode) => operators.backfill(TABLE, Ordering::Arrival, options_of(mode)).await,
        }
    }

    /// Repeats the command until nothing is left to do.
    async fn repeat(self, world: &World) {
        let mut last = None;
        for _ in 0..MAX_REPETITIONS {
            let result = self.run(world).await;
            let is_purged = matches!(
                &result.end,
                End::Failed {
                    kind: Kind::NotFound,
                    ..
                }
            ) && self == Self::Purge;
            if result.is_done() || is_purged {
                return;
            }
            last = Some(result);
        }
        panic!("{self:?} does not end: {last:?}");
    }
}

/// Returns the items without their times: an interrupted command ends later.
fn table(world: &World) -> Vec<Value> {
    let mut items = world.items();
    for item in &mut items {
        for name in [
            "RecordedAt",
            "RecordedTick",
            "RequestsSince",
            "RequestsDropped",
            "RequestsAhead",
            "PurgedAt",
            "TTL",
            "V0Id",
        ] {
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

/// Returns the table after an undisturbed command, and the indexes of the requests that change it.
fn undisturbed(command: Command) -> (Vec<Value>, Vec<usize>) {
    simulate(SEED, async {
        let world = World::new(SEED);
        command.prepare(&world).await;
        world.recorder.take();
        command.run(&world).await;
        let requests = world.recorder.take();
        command.repeat(&world).await;
        let audited = world.operators.audit(Duration::ZERO).await;
        if !matches!(
            command,
            Command::Backfill(WriteMode::Stream) | Command::BackfillInPlace(WriteMode::Stream)
        ) {
            assert_eq!(audited.lines, Vec::<Value>::new(), "{command:?}");
        }
        (table(&world), changes(&requests))
    })
}

/// Returns the indexes of the requests that are no reads.
fn changes(requests: &[Request]) -> Vec<usize> {
    const READS: [&str; 6] = ["Get", "BatchGet", "Query", "Scan", "Describe", "List"];
    // A request to S3 has no operation: it reads a document.
    let is_read = |target: &str| match target.split_once('.') {
        Some((service, operation)) if !service.starts_with("http") => {
            READS.iter().any(|read| operation.starts_with(read))
        }
        _ => true,
    };
    let named = requests.iter().enumerate();
    let changes = named.filter(|(_, (target, _))| !is_read(target));
    changes.map(|(index, _)| index).collect()
}

fn every_interruption(command: Command) {
    every_interruption_of(command, World::new);
}

/// Interrupts a command at each request that changes the table, in all ways.
fn every_interruption_of(command: Command, world: fn(u64) -> World) {
    let (expected, changes) = undisturbed(command);
    assert!(
        changes.len() >= 3,
        "{command:?} changes the table {} times",
        changes.len()
    );
    for at in changes {
        for interruption in Interruption::ALL {
            let (left, told) = simulate(SEED, async {
                let world = world(SEED);
                command.prepare(&world).await;
                let told = world.interrupted(at, interruption, Box::pin(command.run(&world))).await;
                if told.is_done() {
                    assert_eq!(
                        table(&world),
                        expected,
                        "{command:?}: {interruption:?} at {at} was not done: {told:?}"
                    );
                }
                command.repeat(&world).await;
                (table(&world), told)
            });
            assert_eq!(left, expected, "{command:?}: {interruption:?} at {at}, {told:?}");
            let is_killed = matches!(interruption, Interruption::KilledBefore | Interruption::KilledAfter);
            assert_eq!(
                told.end == End::Killed,
                is_killed,
                "{command:?}: {interruption:?} at {at}"
            );
        }
    }
}

#[test]
fn an_interrupted_prune_can_be_repeated() {
    every_interruption(Command::Prune);
    every_interruption(Command::PruneTable);
    every_interruption_of(Command::PruneTable, World::with_checkpoints);
}

#[test]
fn an_interrupted_repair_can_be_repeated() {
    every_interruption(Command::Repair);
}

#[test]
fn an_interrupted_purge_can_be_repeated() {
    every_interruption(Command::Purge);
}

#[test]
fn an_interrupted_redrive_can_be_repeated() {
    every_interruption(Command::Redrive);
    every_interruption(Command::RedriveQuarantine);
}

#[test]
fn an_interrupted_backfill_can_be_repeated() {
    every_interruption_of(Command::Backfill(WriteMode::Stream), World::with_checkpoints);
    for mode in [WriteMode::Stream, WriteMode::Inline, WriteMode::Transaction] {
        every_interruption(Command::Backfill(mode));
        every_interruption(Command::BackfillInPlace(mode));
    }
}

/// The two messages of the dead-letter queue: one that names its request, and one whose request is its message.
const LETTERS: [&str; 2] = [
    r#"{"ID": "A", "State": "OK", "RequestId": "r-1"}"#,
    r#"{"ID": "B", "State": "OK"}"#,
];

#[test]
fn an_interrupted_redrive_of_updates_sends_each_with_one_request_id() {
    let sent = |at, interruption| {
        simulate(SEED, async move {
            let world = World::new(SEED);
            let queues = &world.queues;
            for letter in LETTERS {
                queues.send(DEAD_LETTERS, letter.to_owned(), None, None);
            }
            world.recorder.take();
            let told = world
                .interrupted(at, interruption, Box::pin(world.operators.redrive_queue(DEAD_LETTERS)))
                .await;
            let requests = world.recorder.take().len();
            for _ in 0..MAX_REPETITIONS {
                // A message is hidden until its visibility timeout, if the command was killed.
                tokio::time::sleep(Duration::from_secs(1000)).await;
                if world.operators.redrive_queue(DEAD_LETTERS).await.is_done()
                    && queues.messages(DEAD_LETTERS).is_empty()
                {
                    break;
                }
            }
            assert_eq!(queues.messages(DEAD_LETTERS), [], "{interruption:?} at {at}: {told:?}");
            let mut ids: Vec<_> = (queues.messages(UPDATES).iter())
                .map(|letter| serde_json::from_str::<Value>(&letter.body).unwrap()["RequestId"].clone())
                .collect();
            ids.sort_by_key(Value::to_string);
            ids.dedup();
            (ids, requests)
        })
    };
    let (expected, requests) = sent(usize::MAX, Interruption::LostOnce);
    assert_eq!(expected, [json!("message-2"), json!("r-1")]);
    for at in 0..requests {
        for interruption in Interruption::ALL {
            assert_eq!(sent(at, interruption).0, expected, "{interruption:?} at {at}");
        }
    }
}
