//! States by time: single puts, a load, and ranges.

use operations::{metadata, read::item_collection::item_collection};
use patterns::time_series::{LoadError, PutOutcome, State, StateQuery, StateTime, TimePrefix, TimeSeries};
use serde_json::{Value, json};
use shared::{
    domain::{AttributeValue, Item, change::Change, entity::EntityId},
    dynamodb::Store,
};
use testkit::database::{Database, entity, rows, sorted};

fn item(json: Value) -> Item {
    serde_json::from_value(json).unwrap()
}

fn state(state: &str) -> Item {
    item(json!({"State": {"S": state}}))
}

fn time(text: &str) -> StateTime {
    StateTime::parse(text).unwrap()
}

/// States of three machines, in the order in which they are loaded.
const STATES: [(&str, &str, &str); 10] = [
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

async fn put_metadata(store: &Store, id: &str, name: &str, factory: &str) {
    let text = |text: &str| Change::Set(AttributeValue::S(text.to_owned()));
    let metadata = [("Name".to_owned(), text(name)), ("FactoryId".to_owned(), text(factory))];
    metadata::update(store, &entity(id), &metadata.into()).await.unwrap();
}

fn states(states: &[(&str, &str, &str)]) -> Vec<(EntityId, State)> {
    let loaded = |(id, at, name): &(&str, &str, &str)| {
        let loaded = State {
            time: time(at),
            attributes: state(name),
        };
        (entity(id), loaded)
    };
    states.iter().map(loaded).collect()
}

async fn times(series: &TimeSeries, id: &str, query: &StateQuery) -> Vec<String> {
    let found = series.between(&entity(id), query).await.unwrap();
    found.into_iter().map(|state| state.time.to_string()).collect()
}

/// The states of three machines are loaded in one call, and read by the prefix of their time.
#[tokio::test]
async fn a_load_and_a_month_newest_first() {
    let database = Database::start().await;
    let store = database.store("VersionControl", 1).await;
    let series = TimeSeries::new(database.client.clone(), database.table_name("VersionControl"));
    for (id, name, factory) in METADATA {
        put_metadata(&store, id, name, factory).await;
    }
    let mut counts = Vec::new();
    assert_eq!(
        series.load(&states(&STATES), |stored| counts.push(stored)).await,
        Ok(10)
    );
    assert_eq!(counts, [10]);
    let mut expected: Vec<_> = STATES
        .iter()
        .map(|(id, at, name)| json!({"PK": {"S": id}, "SK": {"S": at}, "State": {"S": name}}))
        .collect();
    expected.extend(METADATA.iter().map(|(id, name, factory)| {
        json!({"PK": {"S": id}, "SK": {"S": "Metadata"}, "Name": {"S": name}, "FactoryId": {"S": factory}})
    }));
    assert_eq!(rows(&database, "VersionControl").await, sorted(expected));

    let month = StateQuery {
        prefix: Some(TimePrefix::parse("2023-12").unwrap()),
        newest_first: true,
        consistent: true,
        ..StateQuery::default()
    };
    let found = series.between(&entity("Equipment#118"), &month).await.unwrap();
    let found: Vec<_> = found
        .into_iter()
        .map(|found| (found.time.to_string(), found.attributes))
        .collect();
    let expected: Vec<_> = STATES[5..]
        .iter()
        .rev()
        .map(|(_, at, name)| ((*at).to_owned(), state(name)))
        .collect();
    assert_eq!(found, expected);
    let limited = StateQuery {
        limit: Some(2),
        ..month.clone()
    };
    assert_eq!(
        times(&series, "Equipment#118", &limited).await,
        [STATES[9].1, STATES[8].1]
    );
    assert!(times(&series, "Equipment#6", &month).await.is_empty());

    // A load replaces an existing state of the same time, and leaves the metadata.
    let replaced = [("Equipment#118", STATES[9].1, "NORMAL")];
    assert_eq!(series.load(&states(&replaced), |_| ()).await, Ok(1));
    let latest = series.latest(&entity("Equipment#118"), true).await.unwrap().unwrap();
    assert!(latest.attributes == state("NORMAL"));
    assert_eq!(rows(&database, "VersionControl").await.len(), 13);
    // Two states of one entity and time: none is stored.
    let twice = [
        ("Equipment#6", STATES[0].1, "OK"),
        ("Equipment#6", STATES[0].1, "ERROR"),
    ];
    let twice = series.load(&states(&twice), |_| ()).await;
    assert_eq!(twice, Err(LoadError::Twice { first: 0, second: 1 }));
    assert_eq!(rows(&database, "VersionControl").await.len(), 13);
}

/// Neither versions nor metadata nor other items are states, with each order and kind of range.
#[tokio::test]
async fn ranges_contain_only_states() {
    let database = Database::start().await;
    let store = database.store("VersionControl", 1).await;
    let series = TimeSeries::new(database.client.clone(), database.table_name("VersionControl"));
    let kept = [
        "2023-12-15T08:30:00",
        "2023-12-15T08:30:00.5",
        "2023-12-31T23:59:59",
        "2024-01-01T00:00:00",
    ];
    let loaded = kept.map(|at| ("E", at, "OK"));
    series.load(&states(&loaded), |_| ()).await.unwrap();
    put_metadata(&store, "E", "Equipment", "F").await;
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
        database
            .put("VersionControl", json!({"PK": {"S": "E"}, "SK": {"S": key}}))
            .await;
    }
    let expired = json!({"PK": {"S": "E"}, "SK": {"S": "2023-12-15T09:00:00"}, "TTL": {"N": "1"}});
    database.put("VersionControl", expired).await;
    let read = async |prefix: Option<&str>, from: Option<&str>, to: Option<&str>, limit: Option<usize>| {
        let mut query = StateQuery {
            prefix: prefix.map(|prefix| TimePrefix::parse(prefix).unwrap()),
            from: from.map(time),
            to: to.map(time),
            limit,
            consistent: true,
            ..StateQuery::default()
        };
        let ascending = times(&series, "E", &query).await;
        query.newest_first = true;
        let mut descending = times(&series, "E", &query).await;
        if limit.is_none() {
            descending.reverse();
            assert_eq!(ascending, descending);
        }
        ascending
    };
    assert_eq!(read(None, None, None, None).await, kept);
    assert_eq!(read(Some("2"), None, None, None).await, kept);
    assert_eq!(read(None, None, None, Some(3)).await, kept[..3]);
    assert_eq!(read(Some("2023"), None, None, None).await, kept[..3]);
    assert_eq!(read(Some("2023-12-15T08:30:00"), None, None, None).await, kept[..2]);
    assert_eq!(read(Some("2023-12-15T08:30:00."), None, None, None).await, kept[1..2]);
    // A prefix together with bounds inside, around and outside of it.
    assert_eq!(read(Some("2023-12"), Some("2023-12-16"), None, None).await, kept[2..3]);
    assert_eq!(read(Some("2023-12"), None, Some(kept[1]), None).await, kept[..2]);
    assert_eq!(
        read(Some("2023"), Some("2000-01-01"), Some("2030-01-01"), None).await,
        kept[..3]
    );
    assert!(read(Some("2023"), Some("2024-01-01"), None, None).await.is_empty());
    assert!(read(Some("2023"), None, Some("2022-01-01"), None).await.is_empty());
    assert!(
        read(None, Some("2024-02-01"), Some("2023-01-01"), None)
            .await
            .is_empty()
    );
}

/// Two pages of 1 MB each.
#[tokio::test]
async fn a_range_has_all_pages() {
    let database = Database::start().await;
    let store = database.store("VersionControl", 1).await;
    let series = TimeSeries::new(database.client.clone(), database.table_name("VersionControl"));
    let text = "x".repeat(100_000);
    let loaded: Vec<_> = (10..30).map(|day| format!("2023-12-{day}T00:00:00")).collect();
    let loaded: Vec<_> = loaded.iter().map(|at| ("E", at.as_str(), text.as_str())).collect();
    assert_eq!(series.load(&states(&loaded), |_| ()).await, Ok(20));
    let query = |limit| StateQuery {
        limit,
        ..StateQuery::default()
    };
    assert_eq!(times(&series, "E", &query(None)).await.len(), 20);
    assert_eq!(times(&series, "E", &query(Some(15))).await.len(), 15);
    let mut counts = Vec::new();
    let collection = item_collection(&store, &entity("E"), true, |read| counts.push(read)).await;
    assert_eq!(collection.unwrap().items.len(), 20);
    assert!(counts.len() > 1 && counts.last() == Some(&20), "{counts:?}");
}

/// Equipment states of a factory, keyed by time.
#[tokio::test]
async fn time_based_versions() {
    let database = Database::start().await;
    let store = database.store("VersionControl", 1).await;
    let series = TimeSeries::new(database.client.clone(), database.table_name("VersionControl"));
    let states = [
        ("2023-12-15T08:30:00", "NORMAL"),
        ("2023-12-16T09:45:00", "WARNING1"),
        ("2023-12-17T10:20:00", "NORMAL"),
        ("2023-12-18T11:05:00", "ERROR"),
        ("2023-12-19T12:15:00", "WARNING2"),
    ];
    let equipment = entity("Equipment#118");
    let text = |text: &str| Change::Set(shared::domain::AttributeValue::S(text.to_owned()));
    let metadata = [
        ("Name".to_owned(), text("Equipment-118")),
        ("FactoryId".to_owned(), text("F#88985")),
    ];
    metadata::update(&store, &equipment, &metadata.into()).await.unwrap();
    for (at, name) in states {
        assert_eq!(
            series.put(&equipment, &time(at), state(name), false).await,
            Ok(PutOutcome::Put)
        );
    }
    let mut expected: Vec<_> = states
        .iter()
        .map(|(at, name)| json!({"PK": {"S": "Equipment#118"}, "SK": {"S": at}, "State": {"S": name}}))
        .collect();
    expected.push(json!({
        "PK": {"S": "Equipment#118"}, "SK": {"S": "Metadata"}, "Name": {"S": "Equipment-118"}, "FactoryId": {"S": "F#88985"},
    }));
    assert_eq!(rows(&database, "VersionControl").await, sorted(expected));

    let latest = series.latest(&equipment, true).await.unwrap().unwrap();
    assert!(latest.time == time("2023-12-19T12:15:00") && latest.attributes == state("WARNING2"));
    let between = async |from: Option<&str>, to: Option<&str>| {
        let query = StateQuery {
            from: from.map(time),
            to: to.map(time),
            consistent: true,
            ..StateQuery::default()
        };
        let found = series.between(&equipment, &query).await.unwrap();
        found
            .into_iter()
            .map(|state| state.time.to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(between(None, None).await, states.map(|(at, _)| at));
    assert_eq!(
        between(Some("2023-12-16T09:45:00"), Some("2023-12-17T10:20:00")).await,
        [states[1].0, states[2].0]
    );
    assert!(between(Some("2024-01-01"), Some("2023-01-01")).await.is_empty());
    // Two states at the same time.
    assert_eq!(
        series.put(&equipment, &time(states[4].0), state("OTHER"), false).await,
        Ok(PutOutcome::Taken)
    );
    assert!(series.latest(&equipment, true).await.unwrap().unwrap().attributes == state("WARNING2"));
    assert_eq!(
        series.put(&equipment, &time(states[4].0), state("OTHER"), true).await,
        Ok(PutOutcome::Put)
    );
    assert!(series.latest(&equipment, true).await.unwrap().unwrap().attributes == state("OTHER"));
    assert!(series.latest(&entity("Equipment#1"), true).await.unwrap().is_none());
}
