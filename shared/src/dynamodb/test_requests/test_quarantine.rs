use serde_json::json;

use super::{equipment, now, sent};
use crate::{
    domain::{quarantine::QuarantinedRecord, sequence::SequenceNumber, version::Version},
    dynamodb::put::put_together,
};

#[tokio::test]
async fn quarantined_records() {
    let record = QuarantinedRecord {
        entity: equipment(),
        number: SequenceNumber::new("300000000000000000042").unwrap(),
        kind: "Conflict".to_owned(),
        reason: "a different item is stored as this version".to_owned(),
        version: Version::new(7),
        at: Some(now()),
        record: r#"{"eventName":"MODIFY"}"#.to_owned(),
    };
    let request = put_together::put_request(&record.items(), "Table").unwrap();
    let mut body = sent(async |client| request.send_with(&client).await).await;
    // The SDK makes up a token for each.
    body["DynamoDB_20120810.TransactWriteItems"]["ClientRequestToken"] = json!("token");
    insta::assert_json_snapshot!("quarantine", body);
}
