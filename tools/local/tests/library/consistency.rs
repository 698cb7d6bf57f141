//! Consumed capacity of strongly and of eventually consistent reads, compared with `docs/costs.md`.

#![allow(clippy::float_cmp, reason = "f64 represents the halves of capacity units exactly")]

use operations::{
    as_of::as_of,
    read::history::{History, HistoryQuery},
};
use patterns::{
    ratchet::{Key, Ratchet},
    time_series::{StateQuery, StateTime, TimeSeries},
};
use serde_json::json;
use shared::domain::{AttributeValue, Item, recorded_at::RecordedAt, version::Version};
use testkit::{
    database::{Database, entity},
    endpoint::is_about_one_table,
    pages::rows,
    updates::{Change, WriteMode, metadata},
    world::World,
};

/// Number of versions of the entity `E`, just under 1 KB each.
const VERSIONS: u64 = 25;

/// Sends one of the reads in `docs/costs.md`. The tables have version keys of width 1 and 10.
async fn read(narrow: &World<'_>, wide: &World<'_>, name: &str, consistent: bool) {
    let (store, small) = (&narrow.store, entity("E"));
    let history = async |world: &World<'_>| {
        let query = HistoryQuery {
            consistent,
            ..HistoryQuery::default()
        };
        let history = History::read(&world.store, &small, query).await.unwrap().unwrap();
        assert_eq!(history.collect().await.unwrap().len() as u64, VERSIONS);
    };
    match name {
        "the latest version, or one by its number, of up to 4 KB" => {
            assert!(store.latest(&small, consistent).await.unwrap().is_some());
        }
        "the same, of 9 KB" => {
            let found = store.version(&entity("large"), Version::FIRST, consistent).await;
            assert!(found.unwrap().is_some());
        }
        "the first of 25 versions by its time" => {
            let time = RecordedAt::since_epoch(std::time::Duration::from_secs(1));
            let found = as_of(store, &small, time, consistent).await;
            assert_eq!(found.unwrap().unwrap().version, Version::FIRST);
        }
        "a history of 25 versions of just under 1 KB, with keys of width 10" => history(wide).await,
        "the same, with keys of width 1" => history(narrow).await,
        "the item `Metadata`" => {
            let found = store.get(&small, metadata::SORT_KEY, consistent).await;
            assert!(found.unwrap().is_some());
        }
        _ => panic!("no read is named {name:?}"),
    }
}

#[tokio::test]
async fn eventually_consistent_reads_consume_half_the_capacity() {
    if is_about_one_table() {
        return;
    }
    let database = Database::start().await;
    let narrow = World::new(&database, "Narrow", 1).await.in_mode(WriteMode::Inline);
    let wide = World::new(&database, "Wide", 10).await.in_mode(WriteMode::Inline);
    for number in 1..=VERSIONS {
        for world in [&narrow, &wide] {
            world.at(number).writes(json!({"State": "x".repeat(800)}), number).await;
        }
    }
    let puts = database
        .consumed()
        .into_iter()
        .filter(|(operation, _)| *operation == "PutItem");
    assert!(puts.clone().count() as u64 == 2 * VERSIONS && puts.clone().all(|(_, units)| units == 1.0));
    narrow
        .writes(json!({"ID": "large", "State": "x".repeat(8600)}), 1)
        .await;
    let name = Change::Set(AttributeValue::S("Equipment-001".to_owned()));
    let names = [("Name".to_owned(), name)].into();
    metadata::update(&narrow.store, &entity("E"), &names).await.unwrap();
    let documented = rows("docs/costs.md")
        .into_iter()
        .skip_while(|row| !row[0].starts_with("read of"));
    let documented: Vec<_> = documented.skip(2).take(6).collect();
    assert_eq!(documented.len(), 6);
    for row in documented {
        let [strong, eventual]: [f64; 2] = [1, 2].map(|cell| row[cell].parse().unwrap());
        assert_eq!(eventual * 2.0, strong, "{row:?}");
        for (consistent, expected) in [(true, strong), (false, eventual)] {
            database.consumed();
            Box::pin(read(&narrow, &wide, &row[0], consistent)).await;
            assert_eq!(database.units(), expected, "{row:?}, consistent: {consistent}");
        }
    }
}

#[tokio::test]
async fn eventually_consistent_reads_of_the_patterns_consume_half_the_capacity() {
    let database = Database::start().await;
    database.store("Patterns", 1).await;
    let (client, table) = (database.client.clone(), database.table_name("Patterns"));
    let item = || serde_json::from_value::<Item>(json!({"State": {"S": "x".repeat(6000)}})).unwrap();
    let (series, ratchet) = (TimeSeries::new(client.clone(), &table), Ratchet::new(client, &table));
    let (equipment, key) = (entity("E"), Key::new("User#1", "Movie#A"));
    let time = StateTime::parse("2020-11-12T20:04:00").unwrap();
    series.put(&equipment, &time, item(), false).await.unwrap();
    ratchet.put(&key, 1, item()).await.unwrap();
    // One item of 6 KB each: two units, or one.
    for (consistent, expected) in [(true, 2.0), (false, 1.0)] {
        let query = StateQuery {
            consistent,
            ..StateQuery::default()
        };
        let keys = ["Movie#A".to_owned()];
        database.consumed();
        for read in ["latest", "between", "get", "query", "batch_get"] {
            let found = match read {
                "latest" => series.latest(&equipment, consistent).await.unwrap().iter().len(),
                "between" => series.between(&equipment, &query).await.unwrap().len(),
                "get" => ratchet.get(&key, consistent).await.unwrap().iter().len(),
                "query" => ratchet.query("User#1", consistent).await.unwrap().len(),
                _ => ratchet.batch_get("User#1", &keys, consistent).await.unwrap().len(),
            };
            let measured = (found, database.units());
            assert_eq!(measured, (1, expected), "{read}, consistent: {consistent}");
        }
    }
}
