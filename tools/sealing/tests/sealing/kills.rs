//! Kills, and other instances between any two requests.

use std::{collections::HashSet, future::ready, sync::Arc, time::Duration};

use aws_sdk_s3::primitives::{DateTime, DateTimeFormat};
use futures::{FutureExt as _, future::OptionFuture};
use sealing::{
    error::SealError,
    sealer::Sealed,
    staged::Staged,
    state::{Batch, State},
};
use testkit::{
    cloud::{self, Fault},
    database::Database,
};
use tokio::time::Instant;

use crate::world::World;

/// Queries of the index, of which each run has 128, change nothing.
fn changes_something(request: &cloud::Request) -> bool {
    request.operation != "Query"
}

/// Returns a world in which one batch is sealed and another one waits.
async fn world(database: &Arc<Database>) -> World {
    let world = World::new(database).await;
    world.insert_all(3, 1..=2).await;
    world.seal_now().await.unwrap();
    world.insert_all(4, 3..=4).await;
    world
}

const VERSIONS: usize = 3 * 2 + 4 * 2;

/// Returns the number of requests of a run that can change something.
async fn requests(database: &Arc<Database>) -> usize {
    let world = world(database).await;
    let before = world.cloud.requests().len();
    world.seal_now().await.unwrap();
    world.check(VERSIONS);
    world.cloud.requests()[before..]
        .iter()
        .filter(|request| changes_something(request))
        .count()
}

#[tokio::test]
async fn a_run_that_is_killed_at_any_request_is_finished_by_the_next_one() {
    let database = Arc::new(Database::start().await);
    let count = requests(&database).await;
    assert!(count > 20, "{count}");
    for number in 0..count {
        for executed in [false, true] {
            let world = world(&database).await;
            let mut sent = 0;
            let killed = world.seal(move |request| {
                let is_here = changes_something(request) && sent == number;
                sent += usize::from(changes_something(request));
                ready(is_here.then_some(Fault::Killed { executed }))
            });
            assert!(killed.await.is_err(), "{number}");
            // What is signed is right, also before the next run.
            world.log();
            world.seal_now().await.unwrap();
            world.check(VERSIONS);
            assert_eq!(world.seal_now().await.unwrap(), 0);
        }
    }
}

#[tokio::test]
async fn another_instance_can_run_between_any_two_requests() {
    let database = Arc::new(Database::start().await);
    let count = requests(&database).await;
    for number in 0..count {
        let world = world(&database).await;
        let (other, mut sent) = (world.clone(), 0);
        let outcome = world.seal(move |request| {
            let is_here = changes_something(request) && sent == number;
            sent += usize::from(changes_something(request));
            let other = other.clone();
            async move {
                if is_here {
                    other.insert_and_seal_elsewhere("E#9", 1).await;
                }
                None
            }
        });
        outcome.await.unwrap();
        world.seal_now().await.unwrap();
        world.check(VERSIONS + 1);
        assert_eq!(world.cloud.objects("staging").len(), 1);
    }
}

/// By this, the alarms on ages go off.
#[tokio::test]
async fn while_checkpoints_cannot_be_signed_versions_wait() {
    let database = Arc::new(Database::start().await);
    let world = world(&database).await;
    for _ in 0..2 {
        let process = world.cloud.process(|request| {
            let is_signed = request.operation == "Sign";
            ready(is_signed.then_some(Fault::Rejected(400, "DisabledException")))
        });
        let (sealer, mut sealed) = (world.sealer(&process).await.unwrap(), Sealed::default());
        let deadline = Instant::now() + Duration::from_secs(60);
        assert!(sealer.run(deadline, &mut sealed).await.is_err());
        assert!(sealed.oldest.is_some() && sealed.sealed_at.is_some(), "{sealed:?}");
    }
    world.seal_now().await.unwrap();
    world.check(VERSIONS);
}

#[tokio::test]
async fn reads_are_consistent_and_objects_are_created_once_checked_and_retained() {
    let database = Arc::new(Database::start().await);
    let world = world(&database).await;
    let mut keys = HashSet::new();
    let sealed = world.seal(move |request| {
        let is_first = request.operation == "PutObject" && keys.insert(request.key.clone());
        ready(is_first.then_some(Fault::CONFLICT))
    });
    sealed.await.unwrap();
    let leaves = world.log();
    for batch in [&leaves[..3 * 2], &leaves[3 * 2..]] {
        assert!(batch.is_sorted_by_key(|leaf| (leaf.tag, leaf.version)));
    }
    let now = shared::clock::since_epoch().as_secs();
    let requests = world.cloud.requests();
    assert!(
        requests
            .iter()
            .filter(|request| request.operation == "PutObject")
            .count()
            > 4
    );
    for request in requests {
        let (key, header) = (&request.key, |name| request.header(name));
        match request.operation.as_str() {
            "GetItem" | "BatchGetItem" | "Query" if !request.body.contains("IndexName") => {
                assert!(request.body.contains(r#""ConsistentRead":true"#), "{}", request.body);
            }
            "PutObject" => {
                let is_created = header("if-none-match") == Some("*");
                assert!(
                    is_created || (key == "checkpoint" && header("if-match").is_some()),
                    "{key}"
                );
                assert!(header("x-amz-checksum-sha256").is_some(), "{key}");
                let until = header("x-amz-object-lock-retain-until-date").map(|text| {
                    let until = DateTime::from_str(text, DateTimeFormat::DateTime).unwrap().secs();
                    (u64::try_from(until).unwrap() - now + 3600) / (24 * 3600)
                });
                let days = if key.contains(".p/") { 1 } else { 10 };
                assert_eq!(until, (request.bucket == "log").then_some(days), "{key}");
                let mode = until.map(|_| "COMPLIANCE");
                assert_eq!(header("x-amz-object-lock-mode"), mode, "{key}");
            }
            _ => {}
        }
    }
}

fn is_stopped(outcome: Result<u64, SealError>) -> bool {
    matches!(outcome, Err(SealError::Contradiction(_)))
}

#[tokio::test]
async fn a_state_that_was_restored_or_is_not_the_published_one_stops_sealing() {
    let database = Arc::new(Database::start().await);
    let world = world(&database).await;
    let (client, state) = (&database.client, world.settings.state.clone());
    let old = client.scan().table_name(&state).send().await.unwrap().items.unwrap();
    world.seal_now().await.unwrap();
    let objects = world.cloud.objects("log");
    let newest = client.scan().table_name(&state).send().await.unwrap().items.unwrap();
    for item in newest.clone() {
        let key = ["PK", "SK"].map(|name| (name.to_owned(), item[name].clone()));
        client
            .delete_item()
            .table_name(&state)
            .set_key(Some(key.into()))
            .send()
            .await
            .unwrap();
    }
    assert!(is_stopped(world.seal_now().await));
    let restore = async |items| {
        for item in items {
            let put = client.put_item().table_name(&state).set_item(Some(item));
            put.send().await.unwrap();
        }
    };
    restore(old).await;
    world.insert("E#9", 1, 0).await;
    assert!(is_stopped(world.seal_now().await));
    assert_eq!(world.cloud.objects("log"), objects);
    // docs/operations.md: the items as they were when seal-fn stopped.
    restore(newest).await;
    assert_eq!(world.seal_now().await.unwrap(), 1);
    world.check(VERSIONS + 1);
    // The key signs another tree of the same size.
    let sealer = world.sealer(&world.cloud.process(|_| ready(None))).await.unwrap();
    let (published, mut other) = sealer.log.published(sealer.signer.key()).await.unwrap().unwrap();
    other.root = [1; 32];
    let note = sealer.signer.sign(&other).await.unwrap();
    let replaced = sealer.log.0.replace("checkpoint", note.as_bytes(), Some(&published));
    assert!(replaced.await.unwrap());
    world.insert("E#9", 2, 0).await;
    assert!(is_stopped(world.seal_now().await));
    // Another instance has read the state before the first batch.
    let (first_index, count) = (0, 1);
    let inserted = (String::new(), String::new());
    let batch = Batch {
        first_index,
        count,
        inserted,
    };
    let first = State::default();
    assert!(!sealer.state.swap(&first, &first, &batch, &[]).await.unwrap());
}

#[tokio::test]
async fn without_the_staged_batch_the_log_shows_what_is_sealed() {
    let database = Arc::new(Database::start().await);
    let world = world(&database).await;
    world.seal_now().await.unwrap();
    let is_read = |request: &cloud::Request| request.operation == "GetObject";
    let denied = world.seal(move |request| ready(is_read(request).then_some(Fault::Rejected(403, "AccessDenied"))));
    assert!(!is_stopped(denied.await));
    let process = world.cloud.process(|_| ready(None));
    let staging = world.sealer(&process).await.unwrap().staging;
    for key in world.cloud.objects("staging").into_keys() {
        staging.delete(&key).await.unwrap();
    }
    assert_eq!(world.seal_now().await.unwrap(), 0);
    world.insert("E#9", 1, 0).await;
    assert_eq!(world.seal_now().await.unwrap(), 1);
    world.check(VERSIONS + 1);
    // Before its tiles are written, it may be neither lost nor changed.
    world.insert("E#9", 2, 0).await;
    let killed = world.seal(|request| {
        let is_tile = request.operation == "PutObject" && request.key.starts_with("tile/");
        ready(is_tile.then_some(Fault::Killed { executed: false }))
    });
    assert!(killed.await.is_err());
    let (key, bytes) = world.cloud.objects("staging").pop_last().unwrap();
    let objects = world.cloud.objects("log");
    staging.delete(&key).await.unwrap();
    assert!(is_stopped(world.seal_now().await));
    let mut staged = Staged::parse(&bytes).unwrap();
    staged.entries[0][73] ^= 1;
    staging.create(&key, &staged.text().unwrap()).await.unwrap();
    assert!(is_stopped(world.seal_now().await));
    assert_eq!(world.cloud.objects("log"), objects);
    // Another instance publishes it, and deletes it after the next one.
    staging.delete(&key).await.unwrap();
    staging.create(&key, &bytes).await.unwrap();
    let (other, mut is_read) = (world.clone(), false);
    let sealed = world.seal(move |request| {
        let is_here = request.key.starts_with("staging/") && !std::mem::replace(&mut is_read, true);
        let sealed = is_here.then(|| other.clone().insert_and_seal_elsewhere("E#8", 1));
        OptionFuture::from(sealed).map(|_| None)
    });
    sealed.await.unwrap();
    world.check(VERSIONS + 3);
}
