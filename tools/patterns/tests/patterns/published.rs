//! The patterns, run on their published examples: the resulting tables equal the published ones.

use aws_sdk_dynamodb::types::ScalarAttributeType::S;
use patterns::ratchet::{Key, Outcome, Ratchet};
use serde_json::{Value, json};
use shared::{config::WriteMode, domain::Item};
use testkit::database::{Database, mode, rows, sorted, update, write};

fn item(json: Value) -> Item {
    serde_json::from_value(json).unwrap()
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
                for name in ["RecordedAt", "RequestPayload", "V0Id"] {
                    assert!(row.remove(name).is_some(), "{name}");
                }
            }
            assert_eq!(rows, sorted(expected), "{table}");
        }
    }
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
