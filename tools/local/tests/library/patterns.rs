//! The patterns, run on their published examples: the resulting tables equal the published ones.

use aws_sdk_dynamodb::types::ScalarAttributeType::{N, S};
use futures::future::join_all;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use shared::{
    domain::{Item, update::Change, version::Version},
    dynamodb::write::WriteMode,
    optimistic_lock::{Check, Locked, SaveError},
    ratchet::{Key, Outcome, Ratchet},
    time_series::{PutOutcome, StateTime, TimeSeries},
    two_tables::{self, TwoTables},
};

use testkit::database::{Database, entity, mode, rows, sorted, update, write};

fn item(json: Value) -> Item {
    serde_json::from_value(json).unwrap()
}

fn state(state: &str) -> Item {
    item(json!({"State": {"S": state}}))
}

fn time(text: &str) -> StateTime {
    StateTime::parse(text).unwrap()
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
    store.update_metadata(&equipment, &metadata.into()).await.unwrap();
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
        let (from, to) = (from.map(time), to.map(time));
        let found = series
            .between(&equipment, from.as_ref(), to.as_ref(), true)
            .await
            .unwrap();
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

/// Equipment states keyed by version number, with keys of one digit and of two.
#[tokio::test]
async fn number_based_versions() {
    let database = Database::start().await;
    let states = [
        ("2023-10-03T12:32:00", "NORMAL"),
        ("2023-11-05T12:12:00", "WARNING1"),
        ("2023-11-06T12:05:00", "NORMAL"),
    ];
    for write_mode in [WriteMode::Stream, WriteMode::Inline, WriteMode::Transaction] {
        for (digits, keys) in [(1, ["v0", "v1", "v2", "v3"]), (2, ["v0", "v01", "v02", "v03"])] {
            let table = format!("{write_mode:?}{digits}");
            let store = database.store(&table, digits).await;
            let mut expected = Vec::new();
            for ((at, name), key) in states.iter().zip(&keys[1..]) {
                write(
                    &store,
                    &update(json!({"ID": "Equipment#1", "RequestId": key, "Time": at, "State": name})),
                    mode(write_mode),
                )
                .await
                .unwrap();
                expected.push(json!({
                    "PK": {"S": "Equipment#1"}, "SK": {"S": key}, "RequestId": {"S": key}, "Time": {"S": at}, "State": {"S": name},
                }));
            }
            let mut v0 = expected[2].clone();
            v0["SK"] = json!({"S": keys[0]});
            v0["Latest"] = json!({"N": "3"});
            expected.push(v0);
            let mut rows = rows(&database, &table).await;
            for row in &mut rows {
                // Not in the published table. Only v0 has its own attributes.
                let is_latest = row["SK"]["S"] == keys[0];
                let row = row.as_object_mut().unwrap();
                for name in ["RecentRequests", "RecordedVersion"] {
                    assert_eq!(row.remove(name).is_some(), is_latest, "{name}");
                }
                for name in ["RecordedAt", "RequestPayload"] {
                    assert!(row.remove(name).is_some(), "{name}");
                }
            }
            assert_eq!(rows, sorted(expected), "{table}");
        }
    }
}

async fn create_tables(database: &Database) -> TwoTables {
    database.table("resource", &[("hash", S)]).await;
    database.table("resource-history", &[("hash", S), ("version", N)]).await;
    TwoTables::new(
        database.client.clone(),
        database.table_name("resource"),
        database.table_name("resource-history"),
    )
}

fn row(version: &str, value: &str) -> Value {
    json!({"hash": {"S": "1c5815b2"}, "version": {"N": version}, "attr1": {"S": value}})
}

fn attr(value: &str) -> Item {
    item(json!({"attr1": {"S": value}}))
}

/// A resource in one table, and each of its versions in another.
#[tokio::test]
async fn client_side_row_versioning() {
    use two_tables::Outcome::{Refused, Written};
    let database = Database::start().await;
    let tables = create_tables(&database).await;
    let hash = "1c5815b2";
    let version = |number| Version::new(number).unwrap();
    assert_eq!(tables.update(hash, attr("x"), "w0").await, Ok(Refused));
    assert_eq!(
        tables.create(hash, attr("some old values"), "w1").await,
        Ok(Written(version(1)))
    );
    assert_eq!(tables.create(hash, attr("x"), "w2").await, Ok(Refused));
    assert_eq!(
        tables.update(hash, attr("some values"), "w3").await,
        Ok(Written(version(2)))
    );
    let (old, new) = (row("1", "some old values"), row("2", "some values"));
    assert_eq!(rows(&database, "resource").await, std::slice::from_ref(&new));
    assert_eq!(rows(&database, "resource-history").await, sorted(vec![old, new]));
    let read = tables.read(hash).await.unwrap().unwrap();
    assert!(read.version == version(2) && read.attributes == attr("some values"));

    // Deletes only the resource; the next version number is kept.
    tables.delete(hash).await.unwrap();
    assert!(tables.read(hash).await.unwrap().is_none());
    assert_eq!(tables.history(hash).await.unwrap().len(), 2);
    assert_eq!(tables.create(hash, attr("again"), "w4").await, Ok(Written(version(3))));
}

#[tokio::test]
async fn the_next_update_repairs_a_crash_between_the_two_writes() {
    use two_tables::Outcome::Written;
    let database = Database::start().await;
    let tables = create_tables(&database).await;
    let version = |number| Version::new(number).unwrap();
    tables.create("1c5815b2", attr("one"), "w1").await.unwrap();
    // The writer stops after the history row of version 2.
    tables
        .write_history("1c5815b2", version(2), attr("lost"), "crashed")
        .await
        .unwrap();
    assert_eq!(tables.read("1c5815b2").await.unwrap().unwrap().version, version(1));
    assert_eq!(
        tables.history("1c5815b2").await.unwrap().len(),
        1,
        "the extra row is not returned"
    );
    assert_eq!(
        tables.update("1c5815b2", attr("two"), "w2").await,
        Ok(Written(version(2)))
    );
    assert_eq!(
        rows(&database, "resource-history").await,
        sorted(vec![row("1", "one"), row("2", "two")])
    );
    // A history row of an existing version is never replaced.
    let again = tables.write_history("1c5815b2", version(2), attr("late"), "w3").await;
    assert_eq!(again, Ok(two_tables::Outcome::Conflict));
}

#[tokio::test]
async fn concurrent_writers_cannot_write_the_same_version() {
    use two_tables::Outcome::{Conflict, Written};
    let database = Database::start().await;
    let tables = create_tables(&database).await;
    tables.create("1c5815b2", attr("0"), "w").await.unwrap();
    for round in 0..10 {
        let ids: Vec<_> = (0..6).map(|writer| format!("{round}-{writer}")).collect();
        let outcomes = join_all(ids.iter().map(|id| tables.update("1c5815b2", attr(id), id))).await;
        assert!(
            outcomes
                .iter()
                .all(|outcome| matches!(outcome, Ok(Written(_) | Conflict))),
            "{outcomes:?}"
        );
    }
    let read = tables.read("1c5815b2").await.unwrap().unwrap();
    let history = tables.history("1c5815b2").await.unwrap();
    assert_eq!(history.len() as u64, read.version.get());
    assert!(history[0] == read);
    let numbers: Vec<_> = history.iter().map(|row| row.version.get()).collect();
    assert_eq!(numbers, (1..=read.version.get()).rev().collect::<Vec<_>>());
}

/// Movie ratings, each with its time.
#[tokio::test]
async fn timestamp_writes() {
    let database = Database::start().await;
    database.table("Ratings", &[("PK", S), ("SK", S)]).await;
    let ratings = Ratchet::new(database.client.clone(), database.table_name("Ratings"));
    let rating = |number: u8| item(json!({"Rating": {"N": number.to_string()}}));
    for (user, movie, number, timestamp) in [
        ("User#1", "Movie#A", 3, 1_721_769_060_000),
        ("User#1", "Movie#B", 4, 1_721_768_150_000),
        ("User#2", "Movie#A", 1, 1_721_767_220_000),
        ("User#2", "Movie#Z", 5, 1_721_757_100_000),
    ] {
        assert_eq!(
            ratings.put(&Key::new(user, movie), timestamp, rating(number)).await,
            Ok(Outcome::Applied)
        );
    }
    let (a, z) = (Key::new("User#1", "Movie#A"), Key::new("User#2", "Movie#Z"));
    assert_eq!(
        ratings.put(&a, 1_721_770_090_000, rating(5)).await,
        Ok(Outcome::Applied)
    );
    assert_eq!(ratings.delete(&z, 1_721_757_900_000).await, Ok(Outcome::Applied));
    let row = |user: &str, movie: &str, number: &str, timestamp: &str| json!({"PK": {"S": user}, "SK": {"S": movie}, "Rating": {"N": number}, "Timestamp": {"N": timestamp}});
    let tombstone = json!({
        "PK": {"S": "User#2"}, "SK": {"S": "Movie#Z"}, "Timestamp": {"N": "1721757900000"}, "Deleted": {"BOOL": true},
        "TTL": {"N": "1722362700"},
    });
    let expected = sorted(vec![
        row("User#1", "Movie#A", "5", "1721770090000"),
        row("User#1", "Movie#B", "4", "1721768150000"),
        row("User#2", "Movie#A", "1", "1721767220000"),
        tombstone,
    ]);
    assert_eq!(rows(&database, "Ratings").await, expected);

    // An older write changes nothing, even after the deletion. An equal timestamp is a retry.
    let stale = |stored| Ok(Outcome::Stale { stored: Some(stored) });
    assert_eq!(
        ratings.put(&a, 1_721_770_089_999, rating(1)).await,
        stale(1_721_770_090_000)
    );
    assert_eq!(
        ratings.put(&z, 1_721_757_800_000, rating(1)).await,
        stale(1_721_757_900_000)
    );
    assert_eq!(ratings.delete(&a, 1_721_770_089_999).await, stale(1_721_770_090_000));
    assert_eq!(
        ratings.put(&a, 1_721_770_090_000, rating(5)).await,
        Ok(Outcome::Applied)
    );
    assert_eq!(rows(&database, "Ratings").await, expected);

    // No read returns a tombstone.
    assert_eq!(ratings.get(&z, true).await.unwrap(), None);
    assert!(ratings.get(&a, true).await.unwrap().is_some());
    assert_eq!(ratings.query("User#2", true).await.unwrap().len(), 1);
    let keys = ["Movie#A".to_owned(), "Movie#Z".to_owned(), "Movie#None".to_owned()];
    assert_eq!(ratings.batch_get("User#2", &keys, true).await.unwrap().len(), 1);
    // A newer write replaces the tombstone.
    assert_eq!(
        ratings.put(&z, 1_721_757_900_001, rating(2)).await,
        Ok(Outcome::Applied)
    );
    let revived = serde_json::to_value(ratings.get(&z, true).await.unwrap().unwrap()).unwrap();
    assert_eq!(revived["Rating"], json!({"N": "2"}));
    assert!(revived.get("TTL").is_none() && revived.get("Deleted").is_none());
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Book {
    #[serde(rename = "ISBN")]
    isbn: String,
    title: String,
    version: Option<u64>,
}

#[derive(Serialize)]
struct Isbn {
    #[serde(rename = "ISBN")]
    isbn: &'static str,
}

const ISBN: Isbn = Isbn {
    isbn: "978-3-16-148410-0",
};

fn book(title: &str, version: Option<u64>) -> Book {
    Book {
        isbn: ISBN.isbn.to_owned(),
        title: title.to_owned(),
        version,
    }
}

fn stored(error: SaveError<Book>) -> Option<Book> {
    match error {
        SaveError::Conflict { stored } => stored,
        other => panic!("{other}"),
    }
}

/// Two clients that change the title of a book concurrently.
#[tokio::test]
async fn optimistic_locking() {
    let database = Database::start().await;
    database.table("Books", &[("ISBN", S)]).await;
    let books = Locked::<Book>::new(
        database.client.clone(),
        database.table_name("Books"),
        &["ISBN"],
        "version",
    );
    assert_eq!(books.load(&ISBN).await.unwrap(), None);
    // A value with a version cannot be saved as a new one.
    assert_eq!(
        stored(books.save(&book("x", Some(7)), Check::Version).await.unwrap_err()),
        None
    );
    let new = book("Old Title", None);
    assert_eq!(
        books.save(&new, Check::Version).await.unwrap(),
        book("Old Title", Some(1))
    );
    assert_eq!(new.version, None, "the argument is unchanged");
    let second = books.save(&book("Old Title", Some(1)), Check::Version).await.unwrap();
    assert_eq!(second.version, Some(2));
    // A value without a version conflicts with a stored one.
    assert!(stored(books.save(&book("Other", None), Check::Version).await.unwrap_err()).is_some());

    let ours = books.load(&ISBN).await.unwrap().unwrap();
    books
        .save(&book("Changed By Someone Else", Some(2)), Check::Version)
        .await
        .unwrap();
    let ours = Book {
        title: "New Title".to_owned(),
        ..ours
    };
    let conflicting = stored(books.save(&ours, Check::Version).await.unwrap_err());
    assert_eq!(conflicting, Some(book("Changed By Someone Else", Some(3))));
    assert_eq!(
        stored(books.delete(&ours, Check::Version).await.unwrap_err()),
        conflicting
    );
    // Clobber checks nothing, but increments the version.
    assert_eq!(
        books
            .save(&book("Clobbered", Some(9)), Check::Clobber)
            .await
            .unwrap()
            .version,
        Some(10)
    );
    assert_eq!(
        rows(&database, "Books").await,
        sorted(vec![
            json!({"ISBN": {"S": ISBN.isbn}, "title": {"S": "Clobbered"}, "version": {"N": "10"}})
        ])
    );
    books
        .delete(&book("Clobbered", Some(10)), Check::Version)
        .await
        .unwrap();
    assert_eq!(books.load(&ISBN).await.unwrap(), None);
}

#[tokio::test]
async fn optimistic_locking_inside_a_transaction() {
    let database = Database::start().await;
    database.table("Books", &[("ISBN", S)]).await;
    let books = Locked::<Book>::new(
        database.client.clone(),
        database.table_name("Books"),
        &["ISBN"],
        "version",
    );
    let other = Book {
        isbn: "other".to_owned(),
        ..book("Other", None)
    };
    let saved = books
        .save_all(&[&book("One", None), &other], Check::Version)
        .await
        .unwrap();
    assert_eq!(
        saved.iter().map(|book| book.version).collect::<Vec<_>>(),
        [Some(1), Some(1)]
    );
    // One of the two differs from the stored value, so neither is saved.
    let conflicting = stored(books.save_all(&[&saved[0], &other], Check::Version).await.unwrap_err());
    assert_eq!(conflicting.as_ref(), Some(&saved[1]));
    assert_eq!(books.load(&ISBN).await.unwrap().unwrap().version, Some(1));
    // Combined with other requests in one transaction.
    let save = books.prepare_save(&saved[0], Check::Version).unwrap();
    let delete = books.prepare_delete(&saved[1], Check::Version).unwrap();
    let request = database
        .client
        .transact_write_items()
        .transact_items(save.item)
        .transact_items(delete.item);
    request.send().await.unwrap();
    assert_eq!(books.load(&ISBN).await.unwrap(), save.value);
    assert!(delete.value.is_none());
}
