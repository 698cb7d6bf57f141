//! Consumed capacity of strongly and of eventually consistent reads, compared with `docs/costs.md`.

#![allow(clippy::float_cmp, reason = "f64 represents the halves of capacity units exactly")]

use operations::{as_of::as_of, metadata};
use patterns::{
    ratchet::{Key, Ratchet},
    time_series::{StateQuery, StateTime, TimeSeries},
};
use serde_json::json;
use shared::{
    config::WriteMode,
    domain::{AttributeValue, Item, change::Change, recorded_at::RecordedAt, version::Version},
    dynamodb::{Store, read::history::HistoryQuery},
};
use testkit::database::{Database, entity, mode, update};
use writer_fn::counter;

/// Number of versions of the entity `small`, just under 1 KB each.
const VERSIONS: u64 = 25;
/// Length of their attribute `State`.
const BYTES: usize = 800;

/// Returns the rows of the table in `docs/costs.md`: read, read units if strongly consistent, read units if not.
fn documented() -> Vec<(String, f64, f64)> {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/costs.md")).unwrap();
    let rows = text.lines().skip_while(|line| !line.starts_with("| read of"));
    let rows = rows.skip(2).take_while(|line| line.starts_with('|'));
    rows.map(|row| {
        let cells: Vec<_> = row.trim_matches('|').split('|').map(str::trim).collect();
        (
            cells[0].to_owned(),
            cells[1].parse().unwrap(),
            cells[2].parse().unwrap(),
        )
    })
    .collect()
}

fn units(database: &Database) -> f64 {
    database.consumed().iter().map(|(_, units)| units).sum()
}

async fn write(store: &Store, id: &str, bytes: usize) {
    let json = update(json!({"ID": id, "State": "x".repeat(bytes)}));
    counter::write(store, &json, mode(WriteMode::Inline)).await.unwrap();
}

/// Tables with version keys of width 1 and 10, and the time of the first version of the entity `small` in the first.
struct Tables {
    narrow: Store,
    wide: Store,
    time: RecordedAt,
}

impl Tables {
    async fn create(database: &Database) -> Self {
        let narrow = database.store("Narrow", 1).await;
        let wide = database.store("Wide", 10).await;
        for _ in 1..=VERSIONS {
            write(&narrow, "small", BYTES).await;
            write(&wide, "small", BYTES).await;
        }
        let puts = database.consumed();
        let puts = puts.iter().filter(|(operation, _)| *operation == "PutItem");
        assert!(puts.clone().count() as u64 == 2 * VERSIONS && puts.clone().all(|(_, units)| *units == 1.0));
        write(&narrow, "large", 8600).await;
        let name = Change::Set(AttributeValue::S("Equipment-001".to_owned()));
        let metadata = [("Name".to_owned(), name)].into();
        metadata::update(&narrow, &entity("small"), &metadata).await.unwrap();
        let first = narrow.version(&entity("small"), Version::FIRST, true).await;
        let time = first.unwrap().unwrap().recorded_at.unwrap();
        Self { narrow, wide, time }
    }

    /// Sends one of the reads in `docs/costs.md`.
    async fn read(&self, name: &str, consistent: bool) {
        let small = entity("small");
        match name {
            "the latest version, or one by its number, of up to 4 KB" => {
                assert!(self.narrow.latest(&small, consistent).await.unwrap().is_some());
            }
            "the same, of 9 KB" => {
                let found = self.narrow.version(&entity("large"), Version::FIRST, consistent).await;
                assert!(found.unwrap().is_some());
            }
            "the first of 25 versions by its time" => {
                let found = as_of(&self.narrow, &small, self.time, consistent).await;
                assert_eq!(found.unwrap().unwrap().version, Version::FIRST);
            }
            "a history of 25 versions of just under 1 KB, with keys of width 10" => {
                history(&self.wide, consistent).await;
            }
            "the same, with keys of width 1" => history(&self.narrow, consistent).await,
            "the item `Metadata`" => {
                let found = self.narrow.get(&small, metadata::SORT_KEY, consistent).await;
                assert!(found.unwrap().is_some());
            }
            _ => panic!("no read is named {name:?}"),
        }
    }
}

async fn history(store: &Store, consistent: bool) {
    let query = HistoryQuery {
        consistent,
        ..HistoryQuery::default()
    };
    let history = store.history(&entity("small"), query).await.unwrap().unwrap();
    assert_eq!(history.collect().await.unwrap().len() as u64, VERSIONS);
}

#[tokio::test]
async fn eventually_consistent_reads_consume_half_the_capacity() {
    if testkit::endpoint::is_about_one_table("eventually_consistent_reads_consume_half_the_capacity") {
        return;
    }
    let database = Database::start().await;
    let tables = Tables::create(&database).await;
    let documented = documented();
    assert_eq!(documented.len(), 6);
    for (name, strong, eventual) in documented {
        assert!((eventual * 2.0 - strong).abs() < f64::EPSILON, "{name}");
        for (consistent, expected) in [(true, strong), (false, eventual)] {
            database.consumed();
            tables.read(&name, consistent).await;
            assert_eq!(units(&database), expected, "{name}, consistent: {consistent}");
        }
    }
}

#[tokio::test]
async fn eventually_consistent_reads_of_the_patterns_consume_half_the_capacity() {
    let database = Database::start().await;
    database.store("Patterns", 1).await;
    let table = database.table_name("Patterns");
    let item = || serde_json::from_value::<Item>(json!({"State": {"S": "x".repeat(6000)}})).unwrap();
    let (series, ratchet) = (
        TimeSeries::new(database.client.clone(), &table),
        Ratchet::new(database.client.clone(), &table),
    );
    let (equipment, key) = (entity("E"), Key::new("User#1", "Movie#A"));
    let time = StateTime::parse("2020-11-12T20:04:00").unwrap();
    series.put(&equipment, &time, item(), false).await.unwrap();
    ratchet.put(&key, 1, item()).await.unwrap();
    // One item of 6 KB each: two units, or one.
    for (consistent, expected) in [(true, 2.0), (false, 1.0)] {
        let check = |read: &str| assert_eq!(units(&database), expected, "{read}, consistent: {consistent}");
        database.consumed();
        assert!(series.latest(&equipment, consistent).await.unwrap().is_some());
        check("TimeSeries::latest");
        let query = StateQuery {
            consistent,
            ..StateQuery::default()
        };
        assert_eq!(series.between(&equipment, &query).await.unwrap().len(), 1);
        check("TimeSeries::between");
        assert!(ratchet.get(&key, consistent).await.unwrap().is_some());
        check("Ratchet::get");
        assert_eq!(ratchet.query("User#1", consistent).await.unwrap().len(), 1);
        check("Ratchet::query");
        let keys = ["Movie#A".to_owned()];
        assert_eq!(ratchet.batch_get("User#1", &keys, consistent).await.unwrap().len(), 1);
        check("Ratchet::batch_get");
    }
}
