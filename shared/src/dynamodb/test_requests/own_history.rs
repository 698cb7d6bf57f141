//! Requests for history in a table of its own.

use serde_json::{Value, json};
use testkit::replay::Replay;

use super::{equipment, sent};
use crate::{
    domain::{
        Item,
        compression::Compression,
        keys::{VersionDigits, sort_key_of},
        layout,
        quarantine::QuarantinedRecord,
        sequence::SequenceNumber,
    },
    dynamodb::{
        HistoryTable, Store,
        maintain::move_history,
        put::{
            insert_versions::{self, Insert},
            put_together::insert_request,
        },
        read::query_items::Range,
    },
};

fn item(json: Value) -> Item {
    serde_json::from_value(json).unwrap()
}

#[tokio::test]
async fn insert_into_history() {
    // The second one is nested as deeply as DynamoDB allows.
    let deep = (1..32).fold(json!({"S": "x"}), |inner, _| json!({"L": [inner]}));
    let keys = |sk: &str| json!({"PK": {"S": "Equipment#1"}, "SK": {"S": sk}, "TTL": {"N": "1"}});
    let (mut first, mut second) = (keys("v1"), keys("v2"));
    first["it's \"quoted\""] = json!({"N": "1.50"});
    second["Deep"] = deep;
    let stored = [first, second].map(|version| layout::stored(&item(version), Compression::None).remove(0));
    let inserts = stored.each_ref().map(|item| Insert::new(item, "History").unwrap());
    let request = insert_versions::request(&inserts.each_ref()).unwrap();
    insta::assert_json_snapshot!(
        "insert_into_history",
        sent(async |client| request.send_with(&client).await).await
    );
}

#[tokio::test]
async fn insert_compressed_into_history() {
    let version = item(json!({
        "PK": {"S": "Equipment#1"}, "SK": {"S": "v1"}, "TTL": {"N": "1"}, "RequestId": {"S": "r-1"}, "Actor": {"S": "alice"},
        "RecordedAt": {"S": "2026-11-22T06:24:48.123456000Z"}, "Reason": {"S": "a test"}, "Deleted": {"BOOL": true},
        "Text": {"S": "ab".repeat(1000)},
    }));
    let stored = layout::stored(&version, Compression::Deflate).remove(0);
    let insert = Insert::new(&stored, "History").unwrap();
    let request = insert_versions::request(&[&insert]).unwrap();
    insta::assert_json_snapshot!(
        "insert_compressed_into_history",
        sent(async |client| request.send_with(&client).await).await
    );
}

#[tokio::test]
async fn insert_into_quarantine() {
    let record = QuarantinedRecord {
        entity: equipment(),
        number: SequenceNumber::new("42").unwrap(),
        kind: "Malformed".to_owned(),
        reason: "a reason".to_owned(),
        version: None,
        at: None,
        record: "{}".to_owned(),
    };
    let request = insert_request(&record.items(), "History").unwrap();
    let mut body = sent(async |client| request.send_with(&client).await).await;
    // The SDK makes up a token for each.
    body["DynamoDB_20120810.ExecuteTransaction"]["ClientRequestToken"] = json!("token");
    insta::assert_json_snapshot!("insert_into_quarantine", body);
}

#[tokio::test]
async fn move_into_history() {
    let keys = ("Equipment#1".to_owned(), "v1".to_owned());
    let delete = move_history::delete_request(&keys, "Table");
    insta::assert_json_snapshot!(
        "move_delete",
        sent(async |client| delete.send_with(&client).await).await
    );
    let marked = item(json!({"PK": {"S": "Equipment#1"}, "TTL": {"N": "5"}, "Pinned": {"BOOL": true}}));
    let marks = move_history::marks_request(&marked, &["TTL", "Pinned"], &keys, "History");
    insta::assert_json_snapshot!("move_marks", sent(async |client| marks.send_with(&client).await).await);
}

/// While history is moved, a page has the items of both tables up to the key at which the first of them ends.
#[tokio::test]
async fn pages_during_a_migration() {
    let page = |keys: &[&str], end: Option<&str>| {
        let items = keys.iter().map(|sk| json!({"PK": {"S": "E"}, "SK": {"S": sk}}));
        let mut page = json!({"Items": items.collect::<Vec<_>>()});
        if let Some(end) = end {
            page["LastEvaluatedKey"] = json!({"PK": {"S": "E"}, "SK": {"S": end}});
        }
        page
    };
    for (reversed, history, table, expected, next) in [
        (
            false,
            page(&["v1", "v3"], Some("v3")),
            page(&["v0", "v1", "v10", "v2", "v4"], None),
            &["v1", "v10", "v2", "v3"][..],
            Some("v3"),
        ),
        (
            false,
            page(&["v3"], None),
            page(&["v1", "v2"], Some("v2")),
            &["v1", "v2"],
            Some("v2"),
        ),
        (
            false,
            page(&["v3", "v4"], Some("v4")),
            page(&["v0", "v1"], Some("v1")),
            &["v1"],
            Some("v1"),
        ),
        (
            true,
            page(&["v5", "v4"], Some("v4")),
            page(&["v3", "v2"], Some("v2")),
            &["v5", "v4"],
            Some("v4"),
        ),
        (
            true,
            page(&["v5"], None),
            page(&["v3", "v2", "v0"], None),
            &["v5", "v3", "v2"],
            None,
        ),
        (false, page(&[], None), page(&["v0"], None), &[], None),
    ] {
        let replay = Replay::new([history, table]);
        let mut store = Store::new(replay.client(), "Table", VersionDigits::default());
        store = store.with_history(Some(HistoryTable {
            name: "History".to_owned(),
            is_migrating: true,
        }));
        let mut range = Range::all_versions(None);
        range.reversed = reversed;
        let (items, cursor) = store.query_page(&equipment(), &range, None).await.unwrap();
        let keys: Vec<_> = items.iter().filter_map(sort_key_of).collect();
        assert_eq!(keys, expected);
        let cursor = cursor.map(|cursor| cursor["SK"].as_s().unwrap().clone());
        assert_eq!(cursor.as_deref(), next);
        let tables: Vec<_> = replay.bodies().iter().map(|body| body["TableName"].clone()).collect();
        assert_eq!(tables, ["History", "Table"]);
    }
}
