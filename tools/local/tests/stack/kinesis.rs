//! Kinesis as the change stream.

use serde_json::{Value, json};

use crate::support::{
    documents, eventually, invoke, item, quarantined, settled, start_with, start_without_stream_fn, template, write,
};

#[tokio::test]
async fn the_same_history_by_kinesis() {
    let stack = start_with(template(&[("ChangeStream", "Kinesis")])).await;
    for number in 1..=30 {
        let update = json!({"ID": format!("E#{}", number % 3), "N": number});
        assert_eq!(invoke(&stack, "writer-fn", &update).await["Outcome"], "Written");
    }
    let table = settled(&stack).await;
    // And the layout of the table.
    assert_eq!(table.len(), 4);
    assert_eq!(item(&stack, "E#1", "v10").await["N"], json!({"N": "28"}));
    // A record in quarantine has the number that Kinesis assigned.
    stack
        .put(json!({"PK": {"S": "odd"}, "SK": {"S": "v0"}, "Latest": {"S": "x"}}))
        .await;
    let quarantined = quarantined(&stack, "odd").await;
    let record: Value = serde_json::from_str(&quarantined.record).unwrap();
    assert_eq!(record["kinesis"]["sequenceNumber"], quarantined.number.as_str());
}

#[tokio::test]
async fn a_failure_document_has_the_number_that_kinesis_assigned() {
    let mut template = template(&[("ChangeStream", "Kinesis")]);
    template.mapping.maximum_retry_attempts = Some(1);
    let stack = start_without_stream_fn(template).await;
    write(&stack, json!({"ID": "E"})).await;
    let documents = eventually("a failure document", async || {
        Some(documents(&stack.failed)).filter(|documents| !documents.is_empty())
    })
    .await;
    let document = &documents[0];
    let payload: Value = serde_json::from_str(document["payload"].as_str().unwrap()).unwrap();
    let carried = &payload["Records"][0]["kinesis"];
    assert_eq!(
        document["KinesisBatchInfo"]["startSequenceNumber"],
        carried["sequenceNumber"]
    );
    assert!(document.get("DDBStreamBatchInfo").is_none());
    // In the Region and account of the table, which each engine chooses.
    let arn = document["KinesisBatchInfo"]["streamArn"].as_str().unwrap();
    assert!(
        arn.starts_with("arn:aws:kinesis:") && arn.ends_with(":000000000000:stream/Changes"),
        "{arn}"
    );
    std::fs::remove_dir_all(&stack.failed).unwrap();
}
