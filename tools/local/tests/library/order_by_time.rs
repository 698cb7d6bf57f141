//! The order of updates by time, on a real table.

use serde_json::{Value, json};
use shared::{
    config::Ordering,
    domain::{keys::LATEST_KEY, version::Version},
};
use testkit::database::{Database, item, record as write, settings, written};
use writer_fn::{
    counter::{WriteError, WriteOutcome},
    update::Update,
};

const ID: &str = "User#2";

fn parse(json: Value, request: &str) -> Update {
    Update::parse(json, request, Ordering::Time).unwrap()
}

#[tokio::test]
async fn a_latest_item_from_before_the_order_by_time_is_compared_by_its_time() {
    let database = Database::start().await;
    for (number, options) in settings().into_iter().enumerate() {
        let store = database.store(&format!("T{number}"), 1).await;
        let by_arrival = |time: Option<&str>, request: &str| {
            Update::parse(json!({"ID": ID, "Time": time}), request, Ordering::Arrival).unwrap()
        };
        let by_time = |time: &str, request: &str| parse(json!({"ID": ID, "Time": time}), request);
        let noon = "2024-07-23T12:00:00";
        assert_eq!(
            write(&store, &by_arrival(Some(noon), "r-1"), options).await,
            Ok(written(1))
        );
        assert!(item(&store, ID, LATEST_KEY).await.get("Timestamp").is_none());
        let older = write(&store, &by_time("2024-07-23T13:59:59+02:00", "r-2"), options).await;
        assert_eq!(
            older,
            Ok(WriteOutcome::Stale {
                version: Version::FIRST
            }),
            "{options:?}"
        );
        assert_eq!(
            write(&store, &by_time("2024-07-23T14:00:00+02:00", "r-3"), options).await,
            Ok(written(2))
        );
        assert!(item(&store, ID, LATEST_KEY).await.get("Timestamp").is_some());
        // A latest item without any time is older than every update.
        assert_eq!(write(&store, &by_arrival(None, "r-4"), options).await, Ok(written(3)));
        assert_eq!(
            write(&store, &by_time("1999-01-01T00:00:00", "r-5"), options).await,
            Ok(written(4))
        );
    }
    // A time that another program wrote and that cannot be compared.
    let store = database.store("Unordered", 1).await;
    database
        .put(
            "Unordered",
            json!({"PK": {"S": ID}, "SK": {"S": "v0"}, "Latest": {"N": "1"}, "Time": {"S": "soon"}}),
        )
        .await;
    for (request, options) in settings().into_iter().enumerate() {
        let update = parse(json!({"ID": ID, "Timestamp": 1}), &format!("r-{request}"));
        let error = write(&store, &update, options).await.unwrap_err();
        assert_eq!(
            error,
            WriteError::Unordered {
                version: Version::FIRST
            }
        );
    }
}
