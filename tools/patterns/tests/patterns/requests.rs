//! A snapshot of every request of the patterns, as it goes over the wire.

use aws_sdk_dynamodb::Client;
use patterns::{
    optimistic_lock::{Check, Locked},
    ratchet, time_series, two_tables,
};
use serde_json::{Value, json};
use shared::domain::{Item, entity::EntityId, version::Version};
use testkit::replay::Replay;

/// Sends one request through the real client, and returns its body.
async fn sent<T>(send: impl AsyncFnOnce(Client) -> T) -> Value {
    let replay = Replay::new([json!({})]);
    let _ = send(replay.client()).await;
    let (operation, mut body) = replay.requests().remove(0);
    // The SDK sends the members of a map in any order.
    body.sort_all_objects();
    json!({ format!("DynamoDB_20120810.{operation}"): body })
}

fn equipment() -> EntityId {
    EntityId::new("Equipment#1").unwrap()
}

#[tokio::test]
async fn patterns() {
    let row = || serde_json::from_value::<Item>(json!({"A": {"S": "a"}})).unwrap();
    let time = time_series::StateTime::parse("2020-11-12T20:04:00").unwrap();
    let state = time_series::request(&equipment(), &time, row(), false, "Table");
    insta::assert_json_snapshot!(
        "time_series_put",
        sent(async |client| state.send_with(&client).await).await
    );
    let state = time_series::State {
        time,
        attributes: row(),
    };
    let puts = vec![time_series::put_request(&equipment(), &state).unwrap()];
    let load = time_series::batch_request(puts, "Table");
    insta::assert_json_snapshot!(
        "time_series_load",
        sent(async |client| load.send_with(&client).await).await
    );
    let series = time_series::TimeSeries::new;
    let query = time_series::StateQuery {
        to: Some(state.time),
        prefix: Some(time_series::TimePrefix::parse("2020-11").unwrap()),
        newest_first: true,
        limit: Some(5),
        ..time_series::StateQuery::default()
    };
    insta::assert_json_snapshot!(
        "time_series_between",
        sent(async |client| series(client, "Table").between(&equipment(), &query).await).await
    );
    let key = ratchet::Key::new("User#1", "Movie#A");
    let put = ratchet::request(&key, 1_721_770_090_000, row(), "Table");
    insta::assert_json_snapshot!("ratchet_put", sent(async |client| put.send_with(&client).await).await);
    let query = ratchet::query_request("User#1", true, "Table");
    insta::assert_json_snapshot!(
        "ratchet_query",
        sent(async |client| query.send_with(&client).await).await
    );
    let version = Version::new(2).unwrap();
    let history = two_tables::history_request("1c5815b2", version, row(), "write-1", "history");
    insta::assert_json_snapshot!(
        "two_tables_history",
        sent(async |client| history.send_with(&client).await).await
    );
    let last = two_tables::last_request("1c5815b2", "history");
    insta::assert_json_snapshot!(
        "two_tables_last",
        sent(async |client| last.send_with(&client).await).await
    );
    let read = Some(Version::FIRST);
    let resource =
        two_tables::resource_request("1c5815b2", read, version, row(), "write-1", "resource", "history").unwrap();
    let mut body = sent(async |client| resource.send_with(&client).await).await;
    body["DynamoDB_20120810.TransactWriteItems"]["ClientRequestToken"] = json!("token");
    insta::assert_json_snapshot!("two_tables_resource", body);
}

#[tokio::test]
async fn optimistic_lock() {
    #[derive(serde::Serialize, serde::Deserialize)]
    struct Book {
        isbn: String,
        title: String,
        subtitle: Option<String>,
        version: Option<u64>,
    }
    let book = |version| Book {
        isbn: "978".to_owned(),
        title: "New Title".to_owned(),
        subtitle: None,
        version,
    };
    let books = |client| Locked::<Book>::new(client, "Books", &["isbn"], "version");
    for (name, version, check) in [
        ("optimistic_lock_new", None, Check::Version),
        ("optimistic_lock_save", Some(2), Check::Version),
        ("optimistic_lock_clobber", Some(2), Check::Clobber),
    ] {
        let value = book(version);
        insta::assert_json_snapshot!(
            name,
            sent(async |client| books(client).save(&value, check).await.map(drop)).await
        );
    }
    let value = book(Some(2));
    for (name, check) in [
        ("optimistic_lock_update", Check::Version),
        ("optimistic_lock_update_clobber", Check::Clobber),
    ] {
        let body = sent(async |client| books(client).update(&value, check).await.map(drop)).await;
        insta::assert_json_snapshot!(name, body);
    }
    let body = sent(async |client| books(client).delete(&value, Check::Version).await).await;
    insta::assert_json_snapshot!("optimistic_lock_delete", body);
    insta::assert_json_snapshot!(
        "optimistic_lock_load",
        sent(async |client| books(client).load(&value).await.map(drop)).await
    );
}
