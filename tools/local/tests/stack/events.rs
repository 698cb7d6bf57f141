//! Sends every file of `events/` to the function that its name starts with.

use std::{collections::BTreeMap, path::Path};

use serde_json::{Value, json};
use shared::domain::attributes::same_item;

use crate::support::{invoke, item, root, settled, start};

/// Returns the expected responses by file name, which `tools/deploy/invoke` uses too. Files are sent in order of their names.
fn expected() -> BTreeMap<String, Value> {
    serde_json::from_str(include_str!("../answers.json")).unwrap()
}

#[tokio::test]
async fn every_file_gets_the_expected_response() {
    let stack = start().await;
    let mut expected = expected();
    let event = |path: &Path| -> Value { serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap() };
    let entries = std::fs::read_dir(root().join("events")).unwrap();
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for path in paths {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let event = event(&path);
        let function = format!("{}-fn", name.split_once('-').unwrap().0);
        let answer = invoke(&stack, &function, &event).await;
        assert_eq!(Some(answer), expected.remove(&name), "{name}");
    }
    assert!(expected.is_empty(), "no files for {expected:?}");
    // Again, with the same Idempotency-Key: once more the same version, although the entity has another one since.
    let again = invoke(
        &stack,
        "writer-fn",
        &event(&root().join("events/writer-function-url.json")),
    )
    .await;
    let answered = (&again["statusCode"], &again["headers"]["etag"]);
    assert_eq!(answered, (&json!(200), &json!("\"1\"")), "{again}");
    assert!(again["body"].as_str().unwrap().contains("\"Duplicate\""), "{again}");
    settled(&stack).await;
    assert_eq!(item(&stack, "Equipment#20", "v3").await, Value::Null);

    // The request id of an update in envelopes is the innermost id.
    let request = async |entity: &str| item(&stack, entity, "v1").await["RequestId"]["S"].clone();
    assert_eq!(request("Equipment#3").await, "6a7e8feb-b491-4cf7-a9f1-bf3703467718");
    assert_eq!(request("Equipment#4").await, "059f36b4-87a3-44ab-83d2-661975830a7d");
    assert_eq!(request("Equipment#9").await, "0d079340-135a-c8c6-95c2-41fb8f496c53");
    assert_eq!(request("Equipment#10").await, "dc1e94d9-56c5-5e96-808d-cc7f68faa162");
    assert_eq!(request("Equipment#18").await, "95df01b4-ee98-5cb9-9903-4c221d41eb5e");
    let shard = "shardId-000000000006";
    let number = "49590338271490256608559692538361571095921575989136580001";
    assert_eq!(request("Equipment#19").await, format!("{shard}:{number}"));
    assert_eq!(request("Equipment#20").await, "order-118");
    let sender = async |version: &str| item(&stack, "Equipment#20", version).await["Sender"]["S"].clone();
    assert_eq!(sender("v1").await, "arn:aws:iam::111122223333:user/amy");
    assert_eq!(sender("v2").await, "0f9b2a4e-6f57-4c8d-9d2b-3c1a5e7f8b60");
    // Numbers in text, with all their digits.
    let typed = item(&stack, "Equipment#15", "v1").await;
    assert_eq!(typed["Counter"], json!({"N": "12345678901234567890123456789012345678"}));
    assert_eq!(typed["Limits"], json!({"NS": ["0.1", "99.9"]}));
    // By Kinesis, in any order.
    assert_eq!(item(&stack, "Equipment#14", "v1").await["State"], json!({"S": "OK"}));
    assert_eq!(
        item(&stack, "Equipment#14", "v2").await["State"],
        json!({"S": "WARNING1"})
    );
    // Attributes of every DynamoDB type are stored unchanged; the order of sets may differ.
    let event = event(&root().join("events/stream-every-type.json"));
    let mut image = event["Records"][0]["dynamodb"]["NewImage"].clone();
    image.as_object_mut().unwrap().remove("Latest");
    image["SK"] = json!({"S": "v1"});
    // The time of the stream record.
    image["RecordedAt"] = json!({"S": "2020-11-01T20:04:00.000001000Z"});
    image["RecordedBy"] = json!({"S": "stream"});
    let item = |json: Value| serde_json::from_value(json).unwrap();
    let recorded = self::item(&stack, "Equipment#12", "v1").await;
    assert!(
        same_item(&item(recorded.clone()), &item(image.clone())),
        "{recorded} and {image}"
    );
}
