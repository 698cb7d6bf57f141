//! The order of updates by time.

use operations::latest::write::raise_latest;
use serde_json::{Value, json};
use testkit::{
    database::Database,
    updates::{Ordering, Update, WriteError, WriteOutcome, duplicate, update, version, written},
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
    let stale = |number| WriteOutcome::Stale {
        version: version(number),
    };
    let deletion = by_time(json!({"Timestamp": 3_000_000_000_000_u64, "Deleted": true}), "r-6");
    let [older, same, oldest] = [
        ("2024-07-23T13:59:59+02:00", "r-2"),
        ("2024-07-23T14:00:00+02:00", "r-3"),
        ("1999-01-01T00:00:00", "r-5"),
    ]
    .map(|(time, request)| by_time(json!({"Time": time}), request));
    let newest = json!({"Timestamp": 4_000_000_000_000_u64, "B": 1});
    for world in World::each(&database, "T").await {
        for (number, (update, expected, has_timestamp)) in [
            (by_arrival(Some("2024-07-23T12:00:00")), written(1), false),
            (older.clone(), stale(1), false),
            (same.clone(), written(2), true),
            // A latest item without any time is older than every update.
            (by_arrival(None), written(3), false),
            (oldest.clone(), written(4), true),
            // A deletion has a time, with which later updates are compared. An earlier delivery of it is still detected.
            (deletion.clone(), written(5), true),
            (by_time(json!({"Timestamp": 2_000, "A": 2}), "r-7"), stale(5), true),
            (by_time(newest.clone(), "r-8"), written(6), true),
            (deletion.clone(), duplicate(5), true),
        ]
        .into_iter()
        .enumerate()
        {
            let outcome = world.record(&update).await;
            assert_eq!(outcome, Ok(expected), "{number} {:?}", world.options);
            let has = world.v0().await.get("Timestamp").is_some();
            assert_eq!(has, has_timestamp, "{number} {:?}", world.options);
        }
        assert_eq!(world.latest().await.to_json()["Attributes"], newest);
        // A time that another program wrote and that cannot be compared.
        let soon = json!({"PK": {"S": "E"}, "SK": {"S": "v0"}, "Latest": {"N": "1"}, "Time": {"S": "soon"}});
        world.put(soon).await;
        let unordered = world.record(&by_time(json!({"Timestamp": 1}), "r-9")).await;
        assert_eq!(unordered, Err(WriteError::TimeUnreadable { version: version(1) }));
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
