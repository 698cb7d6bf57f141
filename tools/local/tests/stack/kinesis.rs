//! Kinesis as the change stream.

use serde_json::json;

use crate::support::{documents, eventually, invoke, item, settled, start_with, template};

#[tokio::test]
async fn the_same_history_by_kinesis() {
    let mut template = template(&[("ChangeStream", "Kinesis")]);
    template.mapping.maximum_retry_attempts = Some(1);
    let stack = start_with(template).await;
    for number in 1..=30 {
        let update = json!({"ID": format!("E#{}", number % 3), "N": number});
        assert_eq!(invoke(&stack, "writer-fn", &update).await["Outcome"], "Written");
    }
    let table = settled(&stack).await;
    assert_eq!(table.len(), 3);
    assert_eq!(item(&stack, "E#1", "v10").await["N"], json!({"N": "28"}));
    // A failure document of a Kinesis record has the sequence number that Kinesis assigned.
    stack
        .put(json!({"PK": {"S": "odd"}, "SK": {"S": "v0"}, "Latest": {"S": "x"}}))
        .await;
    let documents = eventually("a failure document", async || {
        Some(documents(&stack.failed)).filter(|documents| !documents.is_empty())
    })
    .await;
    let document = &documents[0];
    let carried = &document["payload"]["Records"][0]["kinesis"];
    assert_eq!(
        document["KinesisBatchInfo"]["startSequenceNumber"],
        carried["sequenceNumber"]
    );
    assert!(document.get("DDBStreamBatchInfo").is_none());
    assert_eq!(
        document["KinesisBatchInfo"]["streamArn"],
        "arn:aws:kinesis:us-east-1:000000000000:stream/Changes"
    );
    std::fs::remove_dir_all(&stack.failed).unwrap();
}
