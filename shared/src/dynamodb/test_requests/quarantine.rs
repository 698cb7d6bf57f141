use serde_json::json;

use super::{equipment, now, sent};
use crate::{
    domain::{quarantine::QuarantinedRecord, sequence::SequenceNumber, version::Version},
    dynamodb::put::{put_together, quarantine},
};

#[tokio::test]
async fn quarantined_records() {
    let mut record = QuarantinedRecord {
        entity: equipment(),
        number: SequenceNumber::new("300000000000000000042").unwrap(),
        kind: "Conflict".to_owned(),
        reason: "a different item is stored as this version".to_owned(),
        version: Version::new(7),
        at: Some(now()),
        record: r#"{"eventName":"MODIFY"}"#.to_owned(),
    };
    for (name, request) in [
        ("quarantine", put_together::put_request(&record.items(), "Table")),
        (
            "quarantine_delete",
            quarantine::delete_request(&record.entity, &record.sort_keys(), "Table"),
        ),
    ] {
        let request = request.unwrap();
        let mut body = sent(async |client| request.send_with(&client).await).await;
        // The SDK makes up a token for each.
        body["DynamoDB_20120810.TransactWriteItems"]["ClientRequestToken"] = json!("token");
        insta::assert_json_snapshot!(name, body);
    }
    // A long record has more items.
    record.record = "a".repeat(400_000);
    let deletion = quarantine::delete_request(&record.entity, &record.sort_keys(), "Table").unwrap();
    assert_eq!(deletion.get_transact_items().as_ref().map(Vec::len), Some(2));
}
