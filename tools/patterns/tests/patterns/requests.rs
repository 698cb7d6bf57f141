//! Snapshots of requests of the patterns, as they go over the wire. Writes of the optimistic lock are tested on a table.

use patterns::{
    ratchet::{Key, Ratchet},
    time_series::{State, StateQuery, StateTime, TimePrefix, TimeSeries},
    two_tables::TwoTables,
};
use serde_json::json;
use shared::domain::{Item, entity::EntityId, version::Version};
use testkit::replay::sent_after;

use crate::failures::{book, books};

/// Sends one request, after others with these responses, and compares it with its snapshot.
macro_rules! check {
    ($name:expr, $send:expr) => {
        check!($name, &[], $send)
    };
    ($name:expr, $before:expr, $send:expr) => {
        insta::assert_json_snapshot!($name, sent_after($before, $send).await)
    };
}

#[tokio::test]
async fn patterns() {
    let row = || serde_json::from_value::<Item>(json!({"A": {"S": "a"}})).unwrap();
    let (equipment, table) = (EntityId::new("Equipment#1").unwrap(), "Table");
    let time = StateTime::parse("2020-11-12T20:04:00").unwrap();
    check!("time_series_put", async |client| {
        TimeSeries::new(client, table)
            .put(&equipment, &time, row(), false)
            .await
    });
    let state = State {
        time: time.clone(),
        attributes: row(),
    };
    let states = [(equipment.clone(), state)];
    check!("time_series_load", async |client| TimeSeries::new(client, table)
        .load(&states, |_| ())
        .await);
    let query = StateQuery {
        to: Some(time),
        prefix: Some(TimePrefix::parse("2020-11").unwrap()),
        newest_first: true,
        limit: Some(5),
        ..StateQuery::default()
    };
    check!("time_series_between", async |client| {
        TimeSeries::new(client, table).between(&equipment, &query).await
    });
    let key = Key::new("User#1", "Movie#A");
    check!("ratchet_put", async |client| Ratchet::new(client, table)
        .put(&key, 1_721_770_090_000, row())
        .await);
    check!("ratchet_query", async |client| Ratchet::new(client, table)
        .query("User#1", true)
        .await);
    let (tables, hash) = (|client| TwoTables::new(client, "resource", "history"), "1c5815b2");
    let version = Version::new(2).unwrap();
    check!("two_tables_history", async |client| {
        tables(client).write_history(hash, version, row(), "write-1").await
    });
    check!("optimistic_lock_load", async |client| books(client)
        .load(&book("", None))
        .await
        .map(drop));
    // After the read of the resource, and the row of history.
    let nothing = json!({});
    check!("two_tables_last", std::slice::from_ref(&nothing), async |client| {
        tables(client).create(hash, row(), "write-1").await
    });
    let stored = json!({"Item": {"hash": {"S": hash}, "version": {"N": "1"}}});
    check!("two_tables_resource", &[stored, nothing], async |client| {
        tables(client).update(hash, row(), "write-1").await
    });
}
