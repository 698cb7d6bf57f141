//! The order of updates by time, and times of versions that another program wrote.

use operations::latest::raise_latest::raise_latest;
use serde_json::{Value, json};
use shared::domain::{Item, recorded_at::RecordedAt};
use testkit::{
    database::Database,
    updates::{MODES, Ordering, Update, WriteError, WriteOutcome, update, version, written},
    world::World,
};

/// A time in seconds since 1970.
const START: u64 = 1_795_328_688;

fn by_time(mut members: Value, request: &str) -> Update {
    members["ID"] = json!("E");
    Update::parse(members, request, Ordering::Time).unwrap()
}

#[tokio::test]
async fn a_latest_item_from_before_the_order_by_time_is_compared_by_its_time() {
    let database = Database::start().await;
    let by_arrival = |time: Option<&str>| update(json!({"ID": "E", "Time": time}));
    let stale = WriteOutcome::Stale { version: version(1) };
    for world in World::each(&database, "T").await {
        for (request, (update, expected, has_timestamp)) in [
            (by_arrival(Some("2024-07-23T12:00:00")), written(1), false),
            (
                by_time(json!({"Time": "2024-07-23T13:59:59+02:00"}), "r-2"),
                stale,
                false,
            ),
            (
                by_time(json!({"Time": "2024-07-23T14:00:00+02:00"}), "r-3"),
                written(2),
                true,
            ),
            // A latest item without any time is older than every update.
            (by_arrival(None), written(3), false),
            (by_time(json!({"Time": "1999-01-01T00:00:00"}), "r-5"), written(4), true),
        ]
        .into_iter()
        .enumerate()
        {
            assert_eq!(
                world.record(&update).await,
                Ok(expected),
                "{request} {:?}",
                world.options
            );
            let has = world.v0().await.get("Timestamp").is_some();
            assert_eq!(has, has_timestamp, "{request} {:?}", world.options);
        }
        // A time that another program wrote and that cannot be compared.
        let soon = json!({"PK": {"S": "E"}, "SK": {"S": "v0"}, "Latest": {"N": "1"}, "Time": {"S": "soon"}});
        world.put(soon).await;
        let unordered = world.record(&by_time(json!({"Timestamp": 1}), "r-6")).await;
        assert_eq!(unordered, Err(WriteError::Unordered { version: version(1) }));
    }
}

/// A version that begins a new sequence of times keeps the client's time: an older update stays stale.
#[tokio::test]
async fn a_repair_keeps_the_order_by_time() {
    let database = Database::start().await;
    let world = World::new(&database, "Table", 1).await;
    let newer = world
        .at(2 * START)
        .record(&by_time(json!({"Timestamp": 10}), "a"))
        .await;
    assert_eq!(newer, Ok(written(1)));
    let (from, to) = (Some(version(1)), version(2));
    let raised = raise_latest(&world.at(START).store, &world.entity(), from, to).await;
    assert!(raised.unwrap().is_some());
    world.put_version().await;
    let older = world
        .at(START + 60)
        .record(&by_time(json!({"Timestamp": 5}), "b"))
        .await;
    assert!(matches!(older, Ok(WriteOutcome::Stale { .. })), "{older:?}");
}

/// Another program can write a time in a form whose texts do not sort with ours, or a value that is no time. Updates go on.
#[tokio::test]
async fn a_time_in_another_form_does_not_stop_updates() {
    let database = Database::start().await;
    let world = World::new(&database, "Table", 1).await.at(START);
    for value in [
        json!({"S": "2026-11-22T09:24:48.123456+02:00"}),
        json!({"S": "2026-11-22T06:24:48"}),
        json!({"S": "2027-01-01"}),
        json!({"S": "tomorrow"}),
        json!({"N": "1795328688123"}),
        json!({"NULL": true}),
    ] {
        for mode in MODES {
            let (world, mut times) = (world.in_mode(mode), Vec::new());
            for key in ["v2", "v3", "v4"] {
                world.delete("E", key).await;
            }
            let latest = json!({"PK": {"S": "E"}, "SK": {"S": "v0"}, "Latest": {"N": "1"}, "RecordedAt": value});
            world.put(latest).await;
            for next in 2..5 {
                assert_eq!(world.apply(json!({"Value": next})).await, Ok(written(next)), "{value}");
                let latest: Item = serde_json::from_value(world.v0().await).unwrap();
                times.push(RecordedAt::of_latest(&latest).unwrap());
            }
            assert!(times.is_sorted_by(|before, after| before < after), "{value}: {times:?}");
        }
    }
}
