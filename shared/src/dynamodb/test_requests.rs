//! A snapshot of every request, as it goes over the wire.

use aws_sdk_dynamodb::Client;
use serde_json::{Value, json};
use testkit::replay::Replay;

use crate::{
    domain::{Item, entity::EntityId, keys::VersionDigits, recorded_at::RecordedAt, version_item::VersionItem},
    dynamodb::{
        Store,
        put::{
            insert_versions::{self, Insert},
            put_version,
        },
        read::{
            batch_get_items, describe_table, get_item, query_items, scan_items,
            table_config::{self, StoredLayout},
            table_identity::TableIdentity,
        },
    },
};

mod test_attached;
mod test_own_history;
mod test_quarantine;

/// Sends one request through the real client, and returns its body.
async fn sent<T>(send: impl AsyncFnOnce(Client) -> T) -> Value {
    let replay = Replay::new([json!({})]);
    let _ = send(replay.client()).await;
    let (operation, mut body) = replay.requests().remove(0);
    // The SDK sends the members of a map in any order.
    body.sort_all_objects();
    json!({ format!("DynamoDB_20120810.{operation}"): body })
}

fn now() -> RecordedAt {
    RecordedAt::parse("2026-11-22T06:24:48.123456Z").unwrap()
}

#[tokio::test]
async fn put_version() {
    let image = json!({
        "PK": {"S": "Equipment#1"}, "SK": {"S": "v0"}, "Latest": {"N": "7"}, "RequestId": {"S": "r-7"},
        "B": {"B": "Zm9v"}, "NS": {"NS": ["1", "2.5"]}, "NULL": {"NULL": true}, "M": {"M": {"a": {"L": []}}},
    });
    let version = VersionItem::from_image(serde_json::from_value(image).unwrap(), VersionDigits::default()).unwrap();
    let body = sent(async |client| put_version::request(version.item(), "Table").send_with(&client).await).await;
    insta::assert_json_snapshot!("put_version", body);
}

#[tokio::test]
async fn put_versions() {
    let image = |entity: &str, latest: u32| {
        let image = json!({
            "PK": {"S": entity}, "SK": {"S": "v0"}, "Latest": {"N": latest.to_string()}, "RequestId": {"S": "r-7"},
            "it's": {"B": "Zm9v"}, "NS": {"NS": ["1", "2.5"]}, "NULL": {"NULL": true}, "M": {"M": {"a": {"L": []}}},
        });
        VersionItem::from_image(serde_json::from_value(image).unwrap(), VersionDigits::default()).unwrap()
    };
    let versions = [image("Equipment#1", 7), image("Equipment#2", 10)];
    let inserts = versions
        .each_ref()
        .map(|version| Insert::new(version.item(), "Table").unwrap());
    let request = insert_versions::request(&inserts.each_ref()).unwrap();
    let body = sent(async |client| request.send_with(&client).await).await;
    insta::assert_json_snapshot!("put_versions", body);
}

#[tokio::test]
async fn scan_items() {
    let body = sent(async |client| scan_items::request("Table", None).send_with(&client).await).await;
    insta::assert_json_snapshot!("scan_items", body);
}

fn item(json: Value) -> Item {
    serde_json::from_value(json).unwrap()
}

fn equipment() -> EntityId {
    EntityId::new("Equipment#1").unwrap()
}

#[tokio::test]
async fn reads() {
    let get = get_item::request(equipment().as_str(), "v0", true, "Table");
    insta::assert_json_snapshot!("get_item", sent(async |client| get.send_with(&client).await).await);
    let store = |client| Store::new(client, "Table", VersionDigits::default());
    let keys = ["v1".to_owned(), "v2".to_owned()];
    let body = sent(async |client| store(client).batch_get(&equipment(), &keys, false).await).await;
    insta::assert_json_snapshot!("batch_get_items", body);
    let body = sent(async |client| store(client).newest_in_history(&equipment(), true).await).await;
    insta::assert_json_snapshot!("newest_in_history", body);
    let body = sent(async |client| store(client).has_history(&equipment(), true).await).await;
    insta::assert_json_snapshot!("has_history", body);
    let read = async |client| store(client).purge_markers([&equipment(), &equipment()]).await;
    insta::assert_json_snapshot!("purge_markers", sent(read).await);
    let describe = describe_table::request("Table");
    insta::assert_json_snapshot!(
        "describe_table",
        sent(async |client| describe.send_with(&client).await).await
    );
    let body = sent(async |client| store(client).latest_versions(&[equipment()], false).await).await;
    insta::assert_json_snapshot!("latest_versions", body);
    assert_eq!(batch_get_items::MAX_KEYS, 100);
    let range = query_items::Range {
        from: "v01".to_owned(),
        to: "v99".to_owned(),
        reversed: true,
        limit: Some(7),
        consistent: true,
    };
    let query = query_items::request(&equipment(), &range, None, "Table");
    insta::assert_json_snapshot!("query_items", sent(async |client| query.send_with(&client).await).await);
}

#[tokio::test]
async fn tables() {
    let digits = VersionDigits::default();
    let table = |id: &str| TableIdentity {
        id: id.to_owned(),
        name: "Table".to_owned(),
    };
    let layout = |history: Option<&str>| StoredLayout {
        digits,
        history: history.map(str::to_owned),
        table: Some(table("a-table-id")),
    };
    let (mut original, mut incomplete) = (layout(Some("History")), layout(None));
    original.table = Some(table("an-earlier-id"));
    incomplete.table = None;
    let (same, own) = (layout(None), layout(Some("History")));
    let requests = [
        ("table_config", table_config::request(&same, None, "Table")),
        (
            "table_config_own_history",
            table_config::request(&own, Some(&same), "Table"),
        ),
        (
            "table_config_adopted",
            table_config::request(&layout(Some("Copy")), Some(&original), "Table"),
        ),
        (
            "table_config_completed",
            table_config::request(&same, Some(&incomplete), "Table"),
        ),
    ];
    for (name, request) in requests {
        insta::assert_json_snapshot!(name, sent(async |client| request.send_with(&client).await).await);
    }
}
