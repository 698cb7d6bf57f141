//! The patterns, run on their published examples: the resulting tables equal the published ones.

use patterns::ratchet::{Key, Outcome, Ratchet};
use serde_json::{Value, json};
use shared::domain::{Item, keys::LATEST_KEY};
use testkit::{
    database::{Database, KEYS, rows, sorted},
    updates::MODES,
    world::World,
};

use crate::time_series::STATES;

/// Equipment states keyed by version number, with keys of one digit and of two.
#[tokio::test]
async fn number_based_versions() {
    let database = Database::start().await;
    for mode in MODES {
        for digits in [1, 2] {
            let world = World::new(&database, &format!("{mode:?}{digits}"), digits)
                .await
                .in_mode(mode);
            let mut expected = Vec::new();
            let of = |id: &'static str| move |row: &&Value| row["PK"]["S"] == id;
            for (id, at, name) in STATES {
                let number = 1 + expected.iter().filter(of(id)).count();
                let key = format!("v{number:0width$}", width = usize::from(digits));
                world
                    .writes(
                        json!({"ID": id, "RequestId": key, "Time": at, "State": name}),
                        number as u64,
                    )
                    .await;
                expected.push(json!({
                    "PK": {"S": id}, "SK": {"S": key}, "RequestId": {"S": key}, "Time": {"S": at}, "State": {"S": name},
                }));
            }
            for (id, latest) in [("Equipment#1", "3"), ("Equipment#6", "2"), ("Equipment#118", "5")] {
                let mut v0 = expected.iter().rfind(of(id)).unwrap().clone();
                (v0["SK"], v0["Latest"]) = (json!({"S": LATEST_KEY}), json!({"N": latest}));
                expected.push(v0);
            }
            let mut rows = world.rows().await;
            for row in &mut rows {
                // Not in the published table. Only v0 has its own attributes.
                let is_latest = row["SK"]["S"] == LATEST_KEY;
                let row = row.as_object_mut().unwrap();
                for name in ["RecentRequests", "RecordedVersion"] {
                    assert_eq!(row.remove(name).is_some(), is_latest, "{name}");
                }
                for name in ["RecordedAt", "RequestPayload", "V0Id"] {
                    assert!(row.remove(name).is_some(), "{name}");
                }
            }
            assert_eq!(rows, sorted(expected), "{}", world.table);
        }
    }
}

/// Movie ratings, each with its time.
#[tokio::test]
async fn timestamp_writes() {
    let database = Database::start().await;
    database.table("Ratings", &KEYS).await;
    let ratings = Ratchet::new(database.client.clone(), database.table_name("Ratings"));
    let key = |user: u8, movie: &str| Key::new(format!("User#{user}"), format!("Movie#{movie}"));
    let put = async |user, movie, number: u8, timestamp| {
        let rating: Item = serde_json::from_value(json!({"Rating": {"N": number.to_string()}})).unwrap();
        ratings.put(&key(user, movie), timestamp, rating).await.unwrap()
    };
    for (user, movie, number, timestamp) in [
        (1, "A", 3, 1_721_769_060_000),
        (1, "B", 4, 1_721_768_150_000),
        (2, "A", 1, 1_721_767_220_000),
        (2, "Z", 5, 1_721_757_100_000),
        (1, "A", 5, 1_721_770_090_000),
    ] {
        assert_eq!(put(user, movie, number, timestamp).await, Outcome::Applied);
    }
    let (a, z) = (key(1, "A"), key(2, "Z"));
    assert_eq!(ratings.delete(&z, 1_721_757_900_000).await, Ok(Outcome::Applied));
    let row = |user: &str, movie: &str, timestamp: &str, more: Value| {
        let mut row = json!({"PK": {"S": user}, "SK": {"S": movie}, "Timestamp": {"N": timestamp}});
        row.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        row
    };
    let rating = |number: &str| json!({"Rating": {"N": number}});
    let tombstone = json!({"Deleted": {"BOOL": true}, "TTL": {"N": "1722362700"}});
    let expected = sorted(vec![
        row("User#1", "Movie#A", "1721770090000", rating("5")),
        row("User#1", "Movie#B", "1721768150000", rating("4")),
        row("User#2", "Movie#A", "1721767220000", rating("1")),
        row("User#2", "Movie#Z", "1721757900000", tombstone),
    ]);
    assert_eq!(rows(&database, "Ratings").await, expected);

    // An older write changes nothing, even after the deletion. An equal timestamp is a retry.
    let stale = |stored| Outcome::Stale { stored: Some(stored) };
    assert_eq!(put(1, "A", 1, 1_721_770_089_999).await, stale(1_721_770_090_000));
    assert_eq!(put(2, "Z", 1, 1_721_757_800_000).await, stale(1_721_757_900_000));
    assert_eq!(
        ratings.delete(&a, 1_721_770_089_999).await,
        Ok(stale(1_721_770_090_000))
    );
    assert_eq!(put(1, "A", 5, 1_721_770_090_000).await, Outcome::Applied);
    assert_eq!(rows(&database, "Ratings").await, expected);

    // No read returns a tombstone.
    assert_eq!(ratings.get(&z, true).await.unwrap(), None);
    assert!(ratings.get(&a, true).await.unwrap().is_some());
    assert_eq!(ratings.query("User#2", true).await.unwrap().len(), 1);
    let keys = ["Movie#A", "Movie#Z", "Movie#None"].map(str::to_owned);
    assert_eq!(ratings.batch_get("User#2", &keys, true).await.unwrap().len(), 1);
    // A newer write replaces the tombstone.
    assert_eq!(put(2, "Z", 2, 1_721_757_900_001).await, Outcome::Applied);
    let revived = serde_json::to_value(ratings.get(&z, true).await.unwrap().unwrap()).unwrap();
    assert_eq!(revived, row("User#2", "Movie#Z", "1721757900001", rating("2")));
    // Any write replaces an item without a timestamp, and costs as much as a put without one.
    let untimed = json!({"PK": {"S": "User#3"}, "SK": {"S": "Movie#A"}, "Rating": {"N": "2"}});
    database.consumed();
    database.put("Ratings", untimed).await;
    let units = database.units();
    assert_eq!((put(3, "A", 4, 1).await, database.units()), (Outcome::Applied, units));
}
