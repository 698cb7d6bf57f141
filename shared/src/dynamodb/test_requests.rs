//! A snapshot of every request, as it goes over the wire.

use aws_sdk_dynamodb::{
    Client, Config,
    config::{BehaviorVersion, Credentials, Region},
};
use aws_smithy_http_client::test_util::capture_request;
use serde_json::{Value, json};

use super::{Store, record_version, scan_items, write_version};
use crate::domain::{
    keys::VersionDigits,
    update::{Ordering, Update},
    version_item::VersionItem,
};

/// Sends one request through the real client, and returns its body.
async fn sent<T>(send: impl AsyncFnOnce(Client) -> T) -> Value {
    let (http, receiver) = capture_request(None);
    let config = Config::builder()
        .behavior_version(BehaviorVersion::v2026_01_12())
        .region(Region::new("eu-central-1"))
        .credentials_provider(Credentials::for_tests())
        .http_client(http)
        .build();
    let _ = send(Client::from_conf(config)).await;
    let request = receiver.expect_request();
    let target = request.headers().get("x-amz-target").unwrap_or_default().to_owned();
    let mut body: Value = serde_json::from_slice(request.body().bytes().unwrap()).unwrap();
    // The SDK sends the members of a map in any order.
    body.sort_all_objects();
    json!({ target: body })
}

async fn written(json: Value, ordering: Ordering, digits: u8) -> Value {
    let update = Update::parse(json, "request-1", ordering).unwrap();
    let digits = VersionDigits::new(digits).unwrap();
    sent(async |client| {
        write_version::request(&update, "Table", digits)
            .send_with(&client)
            .await
    })
    .await
}

#[tokio::test]
async fn write_version() {
    let update = json!({
        "ID": "Equipment#1", "Time": "2020-11-01T20:04:00", "State": "WARNING1",
        "Speed": 1.50, "On": true, "Tags": ["a", {"b": null}], "Note": null,
    });
    insta::assert_json_snapshot!("write_version", written(update.clone(), Ordering::Arrival, 1).await);
    insta::assert_json_snapshot!("write_version_by_time", written(update, Ordering::Time, 1).await);
    let tombstone = json!({"ID": "Equipment#1", "RequestId": "r-7", "Deleted": true, "ExpectedVersion": 6});
    insta::assert_json_snapshot!(
        "write_version_tombstone",
        written(tombstone, Ordering::Arrival, 10).await
    );
    let first = json!({"ID": "Equipment#1", "ExpectedVersion": 0});
    insta::assert_json_snapshot!("write_version_first", written(first, Ordering::Arrival, 1).await);
}

#[tokio::test]
async fn record_version() {
    let image = json!({
        "PK": {"S": "Equipment#1"}, "SK": {"S": "v0"}, "Latest": {"N": "7"}, "RequestId": {"S": "r-7"},
        "B": {"B": "Zm9v"}, "NS": {"NS": ["1", "2.5"]}, "NULL": {"NULL": true}, "M": {"M": {"a": {"L": []}}},
    });
    let version = VersionItem::from_image(serde_json::from_value(image).unwrap(), VersionDigits::default()).unwrap();
    let body = sent(async |client| record_version::request(&version, "Table").send_with(&client).await).await;
    insta::assert_json_snapshot!("record_version", body);
}

#[tokio::test]
async fn scan_items() {
    let body = sent(async |client| scan_items::request("Table", None).send_with(&client).await).await;
    insta::assert_json_snapshot!("scan_items", body);
    let body = sent(async |client| Store::new(client, "Table", VersionDigits::default()).scan_items().await).await;
    insta::assert_json_snapshot!("scan_items", body);
}
