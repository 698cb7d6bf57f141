//! Each version and each operation is sealed, and once: after an outage, with any clock, and if a version was removed and inserted again.

use std::{future::ready, sync::Arc, time::Duration};

use operations::sealed::Kind::{Prune, Purge};
use seal::format::leaf::Kind;
use sealing::{
    place::Place,
    prove::Which,
    sealer::Sealed,
    state::{Request, StateTable},
};
use serde_json::json;
use shared::domain::version::Version;
use testkit::{
    cloud::Fault,
    database::{Database, delete_item, entity},
};
use tokio::time::Instant;

use crate::{
    erase::ENTITY,
    meanwhile::change,
    world::{World, operation},
};

#[tokio::test]
async fn a_version_that_was_removed_and_inserted_again_is_sealed_once() {
    let database = Arc::new(Database::start().await);
    // Inserted again on time, shortly after, or late; then the cursor moves on by other versions. The last clock was ahead.
    for (again, ahead) in [(60, 0), (13 * 60, 0), (3600, 0), (60, 10)] {
        let world = World::new(&database).await;
        world.insert("E#1", 1, -ahead).await;
        world.seal_now().await.unwrap();
        let table = world.store.history_table();
        delete_item(&database.client, table, "E#1", "v1").await;
        for minute in 1..=again / 60 {
            world.pass(60);
            world.insert("E#2", minute.try_into().unwrap(), 0).await;
            world.seal_now().await.unwrap();
        }
        world.insert("E#1", 1, again - ahead).await;
        // Its leaf is in the log, before seal-fn reads the index again.
        world.prove("E#1", Which::One(Version::FIRST), 1).await.unwrap();
        for minute in 1..=20 {
            world.seal_now().await.unwrap();
            world.pass(60);
            world.insert("E#3", minute, 0).await;
            if minute == 5 {
                delete_item(&database.client, table, "E#1", "v1").await;
                world.insert("E#1", 1, again - ahead + 5 * 60).await;
            }
        }
        world.seal_now().await.unwrap();
        world.check(usize::try_from(1 + again / 60 + 20).unwrap());
    }
}

#[tokio::test]
async fn an_outage_is_caught_up_in_small_periods_and_batches() {
    let database = Arc::new(Database::start().await);
    let mut world = World::new(&database).await;
    (world.limits.first_batch, world.limits.batch, world.limits.period) = (2, 5, 12);
    for minute in 1..=40 {
        world.insert_all(2, minute..=minute).await;
        world.pass(3 * 3600 / 40);
    }
    world.insert_all(20, 41..=41).await;
    world.seal_now().await.unwrap();
    world.check(100);
    let (requests, objects) = (world.cloud.requests(), world.cloud.objects("log"));
    let queries = requests.iter().filter(|request| request.body.contains("IndexName"));
    let batches = objects.keys().filter(|key| key.starts_with("checkpoints/"));
    assert!(queries.count() >= 128 * 80 / 12 && batches.count() >= 80 / 5);
    // The index shows a version ten minutes after its insertion, and one is late.
    world.insert("E#9", 1, 10 * 60).await;
    world.insert("E#9", 2, 20 * 60).await;
    world.seal_now().await.unwrap();
    world.check(102);
    // With a mark that was changed, a leaf is looked for in the whole log.
    let mark = json!({"InsertedAt": {"S": format!("{0}/{0}", world.text_of(20 * 60))}});
    let table = world.store.history_table().to_owned();
    change(database.client.clone(), table, "v1", mark).await;
    world.prove(ENTITY, Which::One(Version::FIRST), 1).await.unwrap();
}

#[tokio::test]
async fn a_run_that_ends_between_two_batches_skips_no_version() {
    let database = Arc::new(Database::start().await);
    let mut world = World::new(&database).await;
    (world.limits.first_batch, world.limits.batch) = (1, 1);
    for id in ["E#2", "E#1"] {
        world.insert(id, 1, 0).await;
        world.pass(3600);
    }
    let (process, mut sealed) = (world.cloud.process(|_| ready(None)), Sealed::default());
    let sealer = world.sealer(&process).await.unwrap();
    sealer.run(Instant::now(), &mut sealed).await.unwrap();
    assert!(sealed.leaves == 0 && sealed.oldest.is_some(), "{sealed:?}");
    let mut batches = 0;
    let killed = world.seal(move |request| {
        batches += usize::from(request.operation == "TransactWriteItems");
        ready((batches == 2).then_some(Fault::Killed { executed: false }))
    });
    assert!(killed.await.is_err());
    let deadline = Instant::now() + Duration::from_secs(60);
    sealer.run(deadline, &mut sealed).await.unwrap();
    assert!(sealed.leaves == 1 && sealed.oldest.is_none(), "{sealed:?}");
    world.check(2);
}

#[tokio::test]
async fn a_clock_that_is_ahead_skips_no_version() {
    let database = Arc::new(Database::start().await);
    let world = World::new(&database).await;
    world.insert("E#1", 1, 0).await;
    let year = 365 * 24 * 3600;
    world.pass(year);
    world.seal_now().await.unwrap();
    world.now.fetch_sub(year * 1000, std::sync::atomic::Ordering::Relaxed);
    world.pass(60);
    world.insert("E#1", 2, 0).await;
    world.seal_now().await.unwrap();
    world.check(2);
}

#[tokio::test]
async fn all_operations_are_sealed_and_versions_after_a_purge_again() {
    let database = Arc::new(Database::start().await);
    let world = World::new(&database).await;
    world.insert_all(2, 1..=1).await;
    world.seal_now().await.unwrap();
    let place = Place::of(&world.store).await.unwrap().unwrap();
    let state = StateTable::new(database.client.clone(), &place.state);
    // A transaction has at most 100 writes.
    for number in 0..60_u128 {
        let kind = if number == 0 { Purge } else { Prune };
        let operation = operation(number, kind, (&place.table, "E#0"), 1);
        state.add_operation(&operation).await.unwrap();
    }
    world.seal_now().await.unwrap();
    world.pass(60);
    for id in ["E#0", "E#1"] {
        delete_item(&database.client, world.store.history_table(), id, "v1").await;
        world.insert(id, 1, 0).await;
    }
    let request = Request {
        table: place.table,
        entity: entity("E#1"),
        version: Version::FIRST,
        inserted: String::new(),
    };
    state.add_request(&request).await.unwrap();
    world.seal_now().await.unwrap();
    let leaves = world.log();
    let of = |kind| leaves.iter().filter(|leaf| leaf.kind == kind).count();
    assert_eq!([Kind::Version, Kind::Purge, Kind::Prune].map(of), [3, 1, 59]);
    let (pending, requests) = (state.pending().await.unwrap(), state.requests().await.unwrap());
    assert!(pending.is_empty() && requests.is_empty());
    // The next batch does not remember the version, which the log has.
    world.pass(3600);
    world.insert("E#2", 1, 0).await;
    world.seal_now().await.unwrap();
    state.add_request(&request).await.unwrap();
    assert_eq!(world.seal_now().await.unwrap(), 0);
}
