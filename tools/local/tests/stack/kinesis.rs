//! Kinesis as the change stream.

use serde_json::{Value, json};

use crate::support::{invoke, item, quarantined, settled, start_with, template};

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
