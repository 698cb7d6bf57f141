//! States by time: single puts, a load, and ranges.

use patterns::time_series::{PutOutcome, State, StateQuery, StateTime, TimePrefix, TimeSeries};
use serde_json::json;
use shared::domain::{AttributeValue, Item, entity::EntityId};
use testkit::{
    database::{Database, entity, rows, sorted},
    updates::{Change, metadata},
};

const TABLE: &str = "VersionControl";

/// States of three machines, in the order in which they are loaded.
pub(crate) const STATES: [(&str, &str, &str); 10] = [
    ("Equipment#1", "2023-10-03T12:32:00", "NORMAL"),
    ("Equipment#1", "2023-11-05T12:12:00", "WARNING1"),
    ("Equipment#1", "2023-11-06T12:05:00", "NORMAL"),
    ("Equipment#6", "2024-03-07T22:09:29", "ERROR"),
    ("Equipment#6", "2024-03-30T22:09:29", "WARNING2"),
    ("Equipment#118", "2023-12-15T08:30:00", "NORMAL"),
    ("Equipment#118", "2023-12-16T09:45:00", "WARNING1"),
    ("Equipment#118", "2023-12-17T10:20:00", "NORMAL"),
    ("Equipment#118", "2023-12-18T11:05:00", "ERROR"),
    ("Equipment#118", "2023-12-19T12:15:00", "WARNING2"),
];
const METADATA: [(&str, &str, &str); 3] = [
    ("Equipment#1", "Equipment-001", "F#88546"),
    ("Equipment#6", "Equipment-006", "F#56658"),
    ("Equipment#118", "Equipment-118", "F#88985"),
];

fn attributes(state: &str) -> Item {
    serde_json::from_value(json!({"State": {"S": state}})).unwrap()
}

fn time(text: &str) -> StateTime {
    StateTime::parse(text).unwrap()
}

fn states(states: &[(&str, &str, &str)]) -> Vec<(EntityId, State)> {
    let loaded = |(id, at, name): &(&str, &str, &str)| {
        let loaded = State {
            time: time(at),
            attributes: attributes(name),
        };
        (entity(id), loaded)
    };
    states.iter().map(loaded).collect()
}

async fn open(database: &Database) -> TimeSeries {
    let store = database.store(TABLE, 1).await;
    let series = TimeSeries::new(database.client.clone(), database.table_name(TABLE));
    for (id, name, factory) in METADATA {
        let text = |text: &str| Change::Set(AttributeValue::S(text.to_owned()));
        let facts = [("Name".to_owned(), text(name)), ("FactoryId".to_owned(), text(factory))];
        metadata::update(&store, &entity(id), &facts.into()).await.unwrap();
    }
    series
}

/// Checks that the table has the metadata and these states.
async fn check_rows(database: &Database, states: &[(&str, &str, &str)]) {
    let states = states
        .iter()
        .map(|(id, at, name)| json!({"PK": {"S": id}, "SK": {"S": at}, "State": {"S": name}}));
    let metadata = METADATA.iter().map(|(id, name, factory)| {
        json!({"PK": {"S": id}, "SK": {"S": "Metadata"}, "Name": {"S": name}, "FactoryId": {"S": factory}})
    });
    assert_eq!(rows(database, TABLE).await, sorted(states.chain(metadata).collect()));
}

/// Returns the states of a range, each with its time.
async fn between(series: &TimeSeries, id: &str, query: &StateQuery) -> Vec<(String, String)> {
    let found = series.between(&entity(id), query).await.unwrap().into_iter();
    let text = |state: State| match &state.attributes["State"] {
        AttributeValue::S(name) => (state.time.to_string(), name.clone()),
        other => panic!("{other:?}"),
    };
    found.map(text).collect()
}

fn times(states: Vec<(String, String)>) -> Vec<String> {
    states.into_iter().map(|(time, _)| time).collect()
}

/// Equipment states of a factory, keyed by time.
#[tokio::test]
async fn time_based_versions() {
    let database = Database::start().await;
    let series = open(&database).await;
    for (id, at, name) in STATES {
        let put = series.put(&entity(id), &time(at), attributes(name), false).await;
        assert_eq!(put, Ok(PutOutcome::Put));
    }
    check_rows(&database, &STATES).await;
    let equipment = entity("Equipment#118");
    let latest = async || series.latest(&equipment, true).await.unwrap().unwrap();
    assert!(latest().await == states(&STATES).remove(9).1);
    assert!(series.latest(&entity("Equipment#2"), true).await.unwrap().is_none());
    // Two states at the same time.
    for (replace, outcome, state) in [(false, PutOutcome::Taken, "WARNING2"), (true, PutOutcome::Put, "OTHER")] {
        let put = series
            .put(&equipment, &time(STATES[9].1), attributes("OTHER"), replace)
            .await;
        assert_eq!(put, Ok(outcome));
        assert!(latest().await.attributes == attributes(state));
    }
}

/// The states of three machines are loaded in one call, and read by the prefix of their time.
#[tokio::test]
async fn a_load_and_a_month_newest_first() {
    let database = Database::start().await;
    let series = open(&database).await;
    let mut counts = Vec::new();
    let loaded = series.load(&states(&STATES), |stored| counts.push(stored)).await;
    assert_eq!((loaded, counts), (Ok(10), vec![10]));
    check_rows(&database, &STATES).await;
    let month = |limit| StateQuery {
        prefix: Some(TimePrefix::parse("2023-12").unwrap()),
        newest_first: true,
        consistent: true,
        limit,
        ..StateQuery::default()
    };
    let expected = STATES[5..]
        .iter()
        .rev()
        .map(|(_, at, name)| ((*at).to_owned(), (*name).to_owned()));
    let expected: Vec<_> = expected.collect();
    assert_eq!(between(&series, "Equipment#118", &month(None)).await, expected);
    assert_eq!(between(&series, "Equipment#118", &month(Some(2))).await, expected[..2]);
    assert_eq!(between(&series, "Equipment#6", &month(None)).await, []);
    // A load replaces an existing state of the same time, and leaves the metadata.
    let mut replaced = STATES;
    replaced[9].2 = "NORMAL";
    assert_eq!(series.load(&states(&replaced[9..]), |_| ()).await, Ok(1));
    check_rows(&database, &replaced).await;
}

/// Neither versions nor metadata nor other items are states, with each order and kind of range.
#[tokio::test]
async fn ranges_contain_only_states() {
    let database = Database::start().await;
    let series = open(&database).await;
    let (id, kept) = (
        METADATA[0].0,
        [
            "2023-12-15T08:30:00",
            "2023-12-15T08:30:00.5",
            "2023-12-31T23:59:59",
            "2024-01-01T00:00:00",
        ],
    );
    series
        .load(&states(&kept.map(|at| (id, at, "OK"))), |_| ())
        .await
        .unwrap();
    for key in [
        "v0",
        "v1",
        "v10",
        "floor",
        "request#1",
        "0",
        "2023-12-15#note",
        "9z",
        "zone",
    ] {
        database.put(TABLE, json!({"PK": {"S": id}, "SK": {"S": key}})).await;
    }
    let expired = json!({"PK": {"S": id}, "SK": {"S": "2023-12-15T09:00:00"}, "TTL": {"N": "1"}});
    database.put(TABLE, expired).await;
    for (prefix, from, to, limit, expected) in [
        ("", "", "", None, 0..4),
        ("2", "", "", None, 0..4),
        ("", "", "", Some(3), 0..3),
        ("2023", "", "", None, 0..3),
        ("2023-12-15T08:30:00", "", "", None, 0..2),
        ("2023-12-15T08:30:00.", "", "", None, 1..2),
        ("", kept[1], kept[2], None, 1..3),
        // A prefix together with bounds inside, around and outside of it.
        ("2023-12", "2023-12-16", "", None, 2..3),
        ("2023-12", "", kept[1], None, 0..2),
        ("2023", "2000-01-01", "2030-01-01", None, 0..3),
        ("2023", "2024-01-01", "", None, 0..0),
        ("2023", "", "2022-01-01", None, 0..0),
        ("", "2024-02-01", "2023-01-01", None, 0..0),
    ] {
        let mut query = StateQuery {
            prefix: TimePrefix::parse(prefix).ok(),
            from: StateTime::parse(from).ok(),
            to: StateTime::parse(to).ok(),
            limit,
            consistent: true,
            ..StateQuery::default()
        };
        assert_eq!(
            times(between(&series, id, &query).await),
            kept[expected.clone()],
            "{query:?}"
        );
        query.newest_first = true;
        if limit.is_none() {
            let mut descending = times(between(&series, id, &query).await);
            descending.reverse();
            assert_eq!(descending, kept[expected], "{query:?}");
        }
    }
}
