//! Reads while the stream is behind. The vectors test reads of complete histories in each width.

use operations::read::{history::HistoryQuery, lag};
use serde_json::json;
use shared::{domain::version::Version, dynamodb::read::versions::ReadError};
use testkit::{
    database::{Database, entity},
    updates::{WriteMode, version},
    world::World,
};

fn query(limit: Option<usize>, oldest_first: bool) -> HistoryQuery {
    HistoryQuery {
        limit,
        oldest_first,
        ..HistoryQuery::default()
    }
}

async fn lag(world: &World<'_>) -> (u64, u64) {
    let lag = lag::lag(&world.store, &world.entity()).await.unwrap().unwrap();
    (lag.latest.get(), lag.through.map_or(0, Version::get))
}

#[tokio::test]
async fn reads_use_the_latest_item_while_the_stream_is_behind() {
    let database = Database::start().await;
    let world = World::new(&database, "Table", 1).await.in_mode(WriteMode::Stream);
    world.write_versions(6).await;
    assert_eq!(lag(&world).await, (6, 6));
    // The stream has not delivered the seventh version yet.
    world.at(7).apply(json!({"n": 7})).await.unwrap();
    assert_eq!(lag(&world).await, (7, 6));
    assert_eq!(world.version(7).await.unwrap().to_json()["Attributes"]["n"], 7);
    assert_eq!(world.history(query(None, false)).await, [7, 6, 5, 4, 3, 2, 1]);
    assert_eq!(world.history(query(None, true)).await, [1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(world.history(query(Some(2), false)).await, [7, 6]);
    // Nor the eighth: now no item contains the seventh.
    world.at(8).apply(json!({"n": 8})).await.unwrap();
    assert_eq!(lag(&world).await, (8, 6));
    assert_eq!(world.history(query(None, false)).await, [8, 6, 5, 4, 3, 2, 1]);
    let missing = Err(ReadError::Missing { version: version(7) });
    assert_eq!(world.as_of("E", 7).await, missing);
    assert_eq!(lag::lag(&world.store, &entity("F")).await.unwrap(), None);
}

#[tokio::test]
async fn the_lag_is_found_at_any_distance() {
    let database = Database::start().await;
    let world = World::new(&database, "Table", 1).await;
    world.in_mode(WriteMode::Stream).write_versions(150).await;
    let mut from = 150;
    for through in [150, 149, 51, 50, 49, 30, 2, 1, 0] {
        for number in through + 1..=from {
            world.delete("E", &format!("v{number}")).await;
        }
        from = through;
        assert_eq!(lag(&world).await, (150, through));
    }
    // The newest version item does not close the gap before it.
    let world = World::new(&database, "Gaps", 1).await;
    let [inline, stream] = [WriteMode::Inline, WriteMode::Stream];
    for mode in [inline, stream, stream, inline] {
        world.in_mode(mode).apply(json!({})).await.unwrap();
    }
    assert_eq!(lag(&world).await, (4, 1));
}
