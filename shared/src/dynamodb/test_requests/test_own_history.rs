//! Requests for history in a table of its own.

use serde_json::{Value, json};

use super::{equipment, sent};
use crate::{
    domain::{Item, compression::Compression, layout, quarantine::QuarantinedRecord, sequence::SequenceNumber},
    dynamodb::put::{
        insert_versions::{self, Insert},
        put_together::insert_request,
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
