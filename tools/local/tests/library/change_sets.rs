//! Change sets: all updates are applied, once, or none.

use futures::future::join_all;
use serde_json::{Value, json};
use shared::domain::{keys::LATEST_KEY, names, version::Version};
use testkit::{
    database::{Database, entity},
    updates::{Ordering, Update, WriteError, WriteMode, WriteOutcome, ledger, mode, version},
    world::World,
};
use writer_fn::{
    counter::set::{self, SetError, SetOutcome},
    update::set::parse as set_of,
};

fn parse(json: Value, ordering: Ordering) -> Vec<Update> {
    set_of(json, "request-1", ordering).unwrap_or_else(|error| panic!("{error}"))
}

async fn write(world: &World<'_>, json: Value) -> Result<SetOutcome, SetError> {
    set::write(&world.store, &parse(json, Ordering::Arrival), world.options).await
}

fn versions(numbers: &[u64]) -> Vec<Version> {
    numbers.iter().map(|number| version(*number)).collect()
}

/// Returns an attribute of the latest item of each entity.
async fn each(world: &World<'_>, entities: &[&str], name: &str) -> Vec<Value> {
    let read = entities.iter().map(async |id| {
        let latest = world.store.get(&entity(id), LATEST_KEY, true).await.unwrap();
        serde_json::to_value(latest).unwrap()[name].clone()
    });
    join_all(read).await
}

#[tokio::test]
async fn all_updates_are_applied_once_or_none() {
    let database = Database::start().await;
    for (index, world) in World::each(&database, "Table").await.into_iter().enumerate() {
        let recorded = |second| world.at(second);
        // A latest item, a tombstone, a time of a clock that is ahead, and an entity that does not exist.
        recorded(10)
            .write(json!({"ID": "a", "A": 1, "Map": {"B": 1}}))
            .await
            .unwrap();
        recorded(10).write(json!({"ID": "b", "A": 1})).await.unwrap();
        recorded(11).write(json!({"ID": "b", "Deleted": true})).await.unwrap();
        recorded(500).write(json!({"ID": "c", "A": 1})).await.unwrap();
        recorded(5000).write(json!({"ID": "far"})).await.unwrap();
        let world = world.at(100);
        let updates = json!([
            {"ID": "a", "ExpectedVersion": 1, "Map": {"$update": {"B": 2}}},
            {"ID": "b", "A": 2}, {"ID": "c", "Deleted": true}, {"ID": "d", "ExpectedVersion": 0, "A": 2},
        ]);
        let before = world.rows().await;
        for (member, value, expected, latest) in [(1, 1, 1, 2), (3, 7, 7, 0)] {
            let mut refused = updates.clone();
            refused[member]["ExpectedVersion"] = json!(value);
            let outcome = write(&world, json!({"RequestId": "refused", "Updates": refused})).await;
            let conflict = WriteOutcome::Conflict { expected, latest };
            assert_eq!(
                outcome,
                Ok(SetOutcome::Refused {
                    update: member,
                    outcome: conflict
                }),
                "{index}"
            );
        }
        let mut missing = updates.clone();
        missing[1]["Map"] = json!({"$update": {"B": 2}});
        let (failed, error) = write(&world, json!({"RequestId": "missing", "Updates": missing}))
            .await
            .unwrap_err();
        assert!(
            failed == Some(1) && matches!(error, WriteError::NoMap { .. }),
            "{error}"
        );
        let far = json!({"RequestId": "far", "Updates": [{"ID": "a"}, {"ID": "far"}]});
        let version_1 = WriteError::FarAhead { version: version(1) };
        assert_eq!(write(&world, far).await, Err((Some(1), version_1)));
        assert_eq!(world.rows().await, before, "{index}");

        let event = json!({"RequestId": "r", "Actor": "amy", "RequestSentAt": 100_000, "Updates": updates});
        let expected = versions(&[2, 3, 2, 1]);
        assert_eq!(
            write(&world, event.clone()).await,
            Ok(SetOutcome::Written(expected.clone())),
            "{index}"
        );
        let entities = ["a", "b", "c", "d"];
        for (name, value) in [
            (names::CHANGE_SET, json!({"S": "r"})),
            (names::CHANGE_SET_SIZE, json!({"N": "4"})),
            (names::ACTOR, json!({"S": "amy"})),
            (names::RECORDED_AT, json!({"S": "1970-01-01T00:08:20.000001000Z"})),
            (names::RECORDED_TICK, Value::Null),
        ] {
            assert_eq!(each(&world, &entities, name).await, vec![value; 4], "{index} {name}");
        }
        assert_eq!(each(&world, &["b", "d"], "A").await, vec![json!({"N": "2"}); 2]);
        assert_eq!(each(&world, &["a"], "Map").await, [json!({"M": {"B": {"N": "2"}}})]);
        for id in entities.iter().filter(|_| world.options.mode == WriteMode::Stream) {
            testkit::updates::put_version(&world.store, &entity(id)).await;
        }
        let after = world.rows().await;
        assert_eq!(
            write(&world, event.clone()).await,
            Ok(SetOutcome::Duplicate(expected.clone())),
            "{index}"
        );
        let mut other = event.clone();
        other["Updates"][1]["A"] = json!(3);
        let (failed, error) = write(&world, other).await.unwrap_err();
        assert!(
            failed.is_some() && matches!(error, WriteError::RequestIdReused { .. }),
            "{error}"
        );
        assert_eq!(world.rows().await, after, "{index}");
        // Later updates inherit nothing, and remove the request from some or all of the latest items.
        for dropping in [&entities[..2], &entities[2..]] {
            for id in dropping {
                for number in 0..30 {
                    world
                        .at(501 + number)
                        .write(json!({"ID": id, "N": number}))
                        .await
                        .unwrap();
                }
            }
            assert_eq!(
                each(&world, dropping, names::CHANGE_SET_SIZE).await,
                [Value::Null, Value::Null]
            );
            let again = write(&world.at(900), event.clone()).await;
            assert_eq!(again, Ok(SetOutcome::Duplicate(expected.clone())), "{index}");
        }
    }
}

#[tokio::test]
async fn a_stale_update_refuses_the_set() {
    let database = Database::start().await;
    let world = World::new(&database, "Table", 1).await;
    let write = async |a: u64, b: u64| {
        let updates = json!([{"ID": "a", "Timestamp": a}, {"ID": "b", "Timestamp": b}]);
        let set = parse(
            json!({"RequestId": format!("{a}-{b}"), "Updates": updates}),
            Ordering::Time,
        );
        set::write(&world.store, &set, world.options).await
    };
    assert_eq!(write(10, 20).await, Ok(SetOutcome::Written(versions(&[1, 1]))));
    let outcome = WriteOutcome::Stale { version: version(1) };
    assert_eq!(write(15, 15).await, Ok(SetOutcome::Refused { update: 1, outcome }));
    assert_eq!(write(15, 20).await, Ok(SetOutcome::Written(versions(&[2, 2]))));
}

#[tokio::test]
async fn a_set_fits_into_one_transaction() {
    let database = Database::start().await;
    let set = |count: usize, bytes: usize| {
        let update = |n: usize| json!({"ID": n.to_string(), "A": "x".repeat(bytes)});
        json!({"RequestId": format!("{count} {bytes}"), "Updates": (0..count).map(update).collect::<Vec<_>>()})
    };
    for (options, max) in [
        (mode(WriteMode::Stream), 100),
        (mode(WriteMode::Transaction), 50),
        (ledger(WriteMode::Inline), 50),
        (ledger(WriteMode::Transaction), 33),
    ] {
        let world = World::new(&database, &format!("T{max}{:?}", options.mode), 1)
            .await
            .with(options);
        if max < 100 {
            let too_many = WriteError::TooManyActions { entities: max + 1, max };
            assert_eq!(write(&world, set(max + 1, 1)).await, Err((None, too_many)));
        }
        assert_eq!(
            write(&world, set(max, 1)).await,
            Ok(SetOutcome::Written(vec![version(1); max]))
        );
    }
    let world = World::new(&database, "Large", 1).await;
    assert_eq!(
        write(&world, set(11, 390_000)).await,
        Err((None, WriteError::TooLargeTogether))
    );
    assert!(world.rows().await.is_empty());
    assert!(write(&world, set(10, 390_000)).await.is_ok());
    // With the stored attributes, the items are larger than the updates.
    world
        .write(json!({"ID": "10", "A": "x".repeat(390_000)}))
        .await
        .unwrap();
    let small = json!({"RequestId": "small", "Updates": (0..11).map(|n| json!({"ID": n.to_string(), "B": 1})).collect::<Vec<_>>()});
    assert_eq!(write(&world, small).await, Err((None, WriteError::TooLargeTogether)));
}
