//! A command that is interrupted at any of its writes, and then repeated, leaves the same table as one that was not.
//!
//! The functions do not run: a test prepares the table with the library, in virtual time.
#![allow(clippy::unwrap_used, reason = "in a test, a panic is the message")]

mod world;

use std::time::Duration;

use operations::{
    error::{Kind, OperationError},
    failures::source::Source,
};
use serde_json::{Value, json};
use shared::config::WriteMode;
use tempfile::TempDir;
use tokio::time::sleep;

use self::world::world;
use super::{CommandEnd, is_done, services::DEAD_LETTERS};
use crate::{
    clock::in_virtual_time,
    faults,
    queue::Queue,
    schedule::{Command, Fault, FaultKind, Point},
    world::World,
};

const SEED: u64 = 7;
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

impl World {
    async fn operate(&self, command: &Command, documents: &[Value]) -> CommandEnd {
        Box::pin(self.operators.command(command, documents)).await
    }

    /// Repeats a command until nothing is left to do.
    async fn repeat(&self, command: &Command, documents: &[Value]) {
        let mut last = None;
        for _ in 0..MAX_REPETITIONS {
            let end = self.operate(command, documents).await;
            let is_missing = |error: &OperationError| error.kind() == Kind::NotFound;
            let is_purge = matches!(command, Command::Purge(_));
            if is_done(&end) || is_purge && matches!(&end, Some(Err(error)) if is_missing(error)) {
                return;
            }
            last = Some(end);
        }
        panic!("{command:?} does not end: {last:?}");
    }
}

/// Interrupts at each request of a point, in all ways. Returns the number of requests.
fn every_interruption(on: Point, is_interrupted: impl Fn(Fault) -> bool) -> usize {
    let fault = |nth, (kind, times)| Fault { on, nth, times, kind };
    let all = |nth: &u32| INTERRUPTIONS.map(|way| is_interrupted(fault(*nth, way))) == [true; 4];
    (0..10_000).take_while(all).count()
}

/// Interrupts a command at each of its writes.
fn interrupt(command: &Command, mode: WriteMode, resumes: bool) {
    let undisturbed = in_virtual_time(SEED, async {
        let world = world(mode, Vec::new());
        let documents = world.prepare(command).await;
        world.operate(command, &documents).await;
        world.repeat(command, &documents).await;
        // Without stream-fn, no one stores the versions that a backfill creates.
        if !matches!(command, Command::Backfill(_) | Command::Adopt) || mode != WriteMode::Stream {
            let audited = world.operators.audit(Duration::ZERO).await;
            assert_eq!(audited, Vec::<Value>::new(), "{command:?}");
        }
        world.table()
    });
    let expected = undisturbed.unwrap();
    let is_interrupted = |fault: Fault| {
        let (kind, name) = (fault.kind, format!("{command:?}: {fault:?}"));
        let run = in_virtual_time(SEED, async {
            let mut world = world(mode, vec![fault]);
            let folder: Option<TempDir> = resumes.then(|| tempfile::tempdir().unwrap());
            world.operators.checkpoints = folder.as_ref().map(|folder| folder.path().to_owned());
            let documents = world.prepare(command).await;
            let end = world.operate(command, &documents).await;
            if !world.connector.faults().contains_key(&faults::name(&kind)) {
                return false;
            }
            if is_done(&end) {
                assert_eq!(world.table(), expected, "{name} was not done");
            }
            world.connector.stop_faults().await;
            world.repeat(command, &documents).await;
            assert_eq!(world.table(), expected, "{name}: {end:?}");
            assert_eq!(end.is_none(), kind != FaultKind::ErrorAfter, "{name}");
            true
        });
        run.unwrap()
    };
    let writes = every_interruption(Point::OperatorWrite, is_interrupted);
    assert!(writes >= 3, "{command:?} has {writes} writes");
}

#[test]
fn an_interrupted_prune_can_be_repeated() {
    interrupt(&Command::Prune("A".to_owned(), 2), WriteMode::Stream, false);
    interrupt(&Command::PruneTable(2), WriteMode::Stream, false);
    interrupt(&Command::PruneTable(2), WriteMode::Stream, true);
}

#[test]
fn an_interrupted_repair_can_be_repeated() {
    interrupt(&Command::Revive, WriteMode::Stream, false);
}

#[test]
fn an_interrupted_purge_can_be_repeated() {
    interrupt(&Command::Purge("A".to_owned()), WriteMode::Stream, false);
}

#[test]
fn an_interrupted_redrive_can_be_repeated() {
    interrupt(&Command::Redrive, WriteMode::Stream, false);
}

#[test]
fn an_interrupted_backfill_can_be_repeated() {
    interrupt(&Command::Backfill(0), WriteMode::Stream, true);
    for mode in [WriteMode::Stream, WriteMode::Inline, WriteMode::Transaction] {
        interrupt(&Command::Backfill(0), mode, false);
        interrupt(&Command::Adopt, mode, false);
    }
}

/// The two messages of the dead-letter queue: one that names its request, and one whose request is its message.
const LETTERS: [&str; 2] = [
    r#"{"ID": "A", "State": "OK", "RequestId": "r-1"}"#,
    r#"{"ID": "B", "State": "OK"}"#,
];

#[test]
fn an_interrupted_redrive_of_updates_sends_each_with_one_request_id() {
    let is_interrupted = |fault: Fault| {
        let (kind, name) = (fault.kind, format!("{fault:?}"));
        let run = in_virtual_time(SEED, async {
            let world = world(WriteMode::Stream, vec![fault]);
            let queues = world.operators.queues();
            for letter in LETTERS {
                queues.send(Queue::DeadLetters, None, None, Some(letter.to_owned()));
            }
            let redrive = || Box::pin(world.operators.redrive(Source::Queue(DEAD_LETTERS.to_owned())));
            let _ = redrive().await;
            let is_interrupted = world.connector.faults().contains_key(&faults::name(&kind));
            world.connector.stop_faults().await;
            for _ in 0..MAX_REPETITIONS {
                // A message is hidden until its visibility timeout, if the command was killed.
                sleep(Duration::from_secs(1000)).await;
                if is_done(&redrive().await) && queues.messages(Queue::DeadLetters).is_empty() {
                    break;
                }
            }
            assert!(queues.messages(Queue::DeadLetters).is_empty(), "{name}");
            let mut ids: Vec<_> = (queues.messages(Queue::Resent).iter())
                .map(|letter| {
                    serde_json::from_str::<Value>(letter.body.as_ref().unwrap()).unwrap()["RequestId"].clone()
                })
                .collect();
            ids.sort_by_key(Value::to_string);
            ids.dedup();
            assert_eq!(ids, [json!("message-1"), json!("r-1")], "{name}");
            is_interrupted
        });
        run.unwrap()
    };
    assert!(every_interruption(Point::External, is_interrupted) > 5);
}
