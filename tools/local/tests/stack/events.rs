//! Every file of `events/`, sent to the function its name begins with.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use shared::domain::attributes::same_item;

use crate::support::{invoke, item, root, settled, start};

fn written(entity: &str, version: u64) -> Value {
    json!({"ID": entity, "Version": version, "Outcome": "Written"})
}

fn failures(ids: &[&str]) -> Value {
    let ids: Vec<_> = ids.iter().map(|id| json!({"itemIdentifier": id})).collect();
    json!({"batchItemFailures": ids})
}

/// Files are sent in the order of their names.
fn expected() -> BTreeMap<&'static str, Value> {
    BTreeMap::from([
        ("stream-every-type", failures(&[])),
        ("stream-insert", failures(&[])),
        (
            "stream-kinesis",
            failures(&["49571315827673382174284341778049543068900000000000000004"]),
        ),
        (
            "stream-malformed-record",
            failures(&["100000000000000000000008", "100000000000000000000009"]),
        ),
        ("stream-modify", failures(&[])),
        ("stream-skipped", failures(&[])),
        ("writer-direct", written("Equipment#1", 1)),
        ("writer-eventbridge", written("Equipment#3", 1)),
        ("writer-every-type", written("Equipment#1", 2)),
        ("writer-expected-version", written("Equipment#2", 1)),
        ("writer-idempotent", written("Equipment#1", 3)),
        ("writer-remove-attribute", written("Equipment#1", 4)),
        ("writer-sqs", failures(&[])),
        (
            "writer-sqs-bad-message",
            failures(&[
                "22222222-f796-459a-8184-9c92662be6da",
                "33333333-a70a-42c7-a470-796e1186f753",
            ]),
        ),
        ("writer-sqs-eventbridge", failures(&[])),
        (
            "writer-sqs-fifo",
            failures(&[
                "bbbbbbbb-f796-459a-8184-9c92662be6da",
                "cccccccc-a70a-42c7-a470-796e1186f753",
            ]),
        ),
        ("writer-sqs-sns", failures(&[])),
        ("writer-tombstone", written("Equipment#1", 5)),
    ])
}

#[tokio::test]
async fn every_file_is_answered_as_expected() {
    let stack = start().await;
    let mut expected = expected();
    let entries = std::fs::read_dir(root().join("events")).unwrap();
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for path in paths {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let event = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        let function = format!("{}-fn", name.split_once('-').unwrap().0);
        let answer = invoke(&stack, &function, &event).await;
        assert_eq!(Some(answer), expected.remove(name.as_str()), "{name}");
    }
    assert!(expected.is_empty(), "no files for {expected:?}");
    settled(&stack).await;

    // What came in an envelope carries the innermost id.
    let request = async |entity: &str| item(&stack, entity, "v1").await["RequestId"]["S"].clone();
    assert_eq!(request("Equipment#3").await, "6a7e8feb-b491-4cf7-a9f1-bf3703467718");
    assert_eq!(request("Equipment#4").await, "059f36b4-87a3-44ab-83d2-661975830a7d");
    assert_eq!(request("Equipment#9").await, "0d079340-135a-c8c6-95c2-41fb8f496c53");
    assert_eq!(request("Equipment#10").await, "dc1e94d9-56c5-5e96-808d-cc7f68faa162");
    // By Kinesis, in whatever order they come.
    assert_eq!(item(&stack, "Equipment#14", "v1").await["State"], json!({"S": "OK"}));
    assert_eq!(
        item(&stack, "Equipment#14", "v2").await["State"],
        json!({"S": "WARNING1"})
    );
    // Every DynamoDB type, sets in any order, is written down as it came.
    let event: Value =
        serde_json::from_slice(&std::fs::read(root().join("events/stream-every-type.json")).unwrap()).unwrap();
    let mut image = event["Records"][0]["dynamodb"]["NewImage"].clone();
    image.as_object_mut().unwrap().remove("Latest");
    image["SK"] = json!({"S": "v1"});
    let item = |json: Value| serde_json::from_value(json).unwrap();
    let recorded = self::item(&stack, "Equipment#12", "v1").await;
    assert!(
        same_item(&item(recorded.clone()), &item(image.clone())),
        "{recorded} and {image}"
    );
}
