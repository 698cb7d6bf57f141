//! A snapshot of every request to an attached table, as it goes over the wire.

use serde_json::json;
use shared::{
    domain::{Item, keys::VersionDigits},
    dynamodb::Store,
};
use testkit::replay::sent;

use crate::{check, enable_stream};

#[tokio::test]
async fn attachment() {
    let sample = check::request("Orders", 100);
    let sample = sent(async |client| sample.send_with(&client).await).await;
    insta::assert_json_snapshot!("attachment_sample", sample);
    let stream = enable_stream::request("Orders").unwrap();
    let stream = sent(async |client| stream.send_with(&client).await).await;
    insta::assert_json_snapshot!("attachment_stream", stream);
    let definition = json!({
        "TableName": "Orders",
        "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}, {"AttributeName": "no", "KeyType": "RANGE"}],
        "AttributeDefinitions": [
            {"AttributeName": "id", "AttributeType": "S"}, {"AttributeName": "no", "AttributeType": "N"},
        ],
    });
    let table = crate::parse(&definition.to_string()).unwrap();
    let read = json!({"id": {"S": "a"}, "no": {"N": "7"}, "status": {"S": "open"}});
    let read: Item = serde_json::from_value(read).unwrap();
    let again = sent(async |client| {
        let store = Store::new(client, "Orders", VersionDigits::default());
        check::read_again(&store, &table, &[&read]).await
    });
    insta::assert_json_snapshot!("attachment_again", again.await);
}
