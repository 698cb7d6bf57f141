//! The guarantees of the README, on a running stack.

use serde_json::{Value, json};

use crate::support::{
    documents, eventually, item, settled, start, start_with, start_without_stream_fn, table, template, write,
};

fn written(version: u64) -> (String, Value) {
    ("Written".to_owned(), json!(version))
}

fn outcome(outcome: &str, detail: impl Into<Value>) -> (String, Value) {
    (outcome.to_owned(), detail.into())
}

#[tokio::test]
async fn an_expected_version_is_checked() {
    let stack = start().await;
    let expecting = |version| json!({"ID": "E", "ExpectedVersion": version});
    let conflict = |expected, latest| {
        outcome(
            "VersionConflict",
            format!("expected version {expected}, but the latest is {latest}"),
        )
    };
    for (version, expected) in [
        (1, conflict(1, 0)),
        (0, written(1)),
        (0, conflict(0, 1)),
        (1, written(2)),
        (1, conflict(1, 2)),
    ] {
        assert_eq!(write(&stack, expecting(version)).await, expected);
    }
    settled(&stack).await;
    assert!(item(&stack, "E", "v2").await.get("ExpectedVersion").is_none());
}

#[tokio::test]
async fn with_ordering_by_time_an_older_update_is_stale() {
    let stack = start_with(template(&[("Ordering", "time")])).await;
    let missing = "the event is invalid: Time is missing, and updates are ordered by time";
    for (mut update, expected) in [
        (json!({"Time": "2020-11-01T20:04:00"}), written(1)),
        (json!({"Time": "2020-11-01T20:03:59.999Z"}), outcome("Stale", 1)),
        (json!({"Time": "2020-11-01T21:04:00+01:00"}), written(2)),
        (json!({"Timestamp": 1_604_261_040_001_i64}), written(3)),
        (
            json!({"Timestamp": 1_604_261_040_000_i64, "Deleted": true}),
            outcome("Stale", 3),
        ),
        (json!({}), outcome("InvalidEvent", missing)),
    ] {
        update["ID"] = json!("E");
        assert_eq!(write(&stack, update.clone()).await, expected, "{update}");
    }
    settled(&stack).await;
    for (key, time) in [("v1", "1604261040000"), ("v3", "1604261040001")] {
        assert_eq!(item(&stack, "E", key).await["Timestamp"], json!({"N": time}));
    }
}

/// "A record that cannot be written ends, with its payload, as one failure document; all others are written."
#[tokio::test]
async fn each_record_that_fails_becomes_one_failure_document() {
    let mut template = template(&[]);
    template.mapping.maximum_retry_attempts = Some(1);
    let stack = start_without_stream_fn(template).await;
    for update in 1..=4 {
        write(&stack, json!({"ID": format!("E#{}", update % 2), "Update": update})).await;
    }
    let found = eventually("a document for each record", async || {
        let found = documents(&stack.failed);
        (found.len() == 4).then_some(found)
    })
    .await;
    let mut discarded: Vec<_> = found
        .iter()
        .map(|document| {
            assert_eq!(document["DDBStreamBatchInfo"]["batchSize"], 1);
            let payload: Value = serde_json::from_str(document["payload"].as_str().unwrap()).unwrap();
            payload["Records"][0]["dynamodb"]["NewImage"]["Update"]["N"].clone()
        })
        .collect();
    discarded.sort_by_key(Value::to_string);
    assert_eq!(discarded, ["1", "2", "3", "4"]);
}

/// A latest item of another program at a reserved key makes no version, and delays nothing.
#[tokio::test]
async fn a_latest_item_at_a_reserved_key_is_skipped() {
    use std::sync::atomic::Ordering::Relaxed;
    let stack = start().await;
    for (key, latest) in [("#vzero", json!({"S": "x"})), ("#vzero#x", json!({"N": "1"}))] {
        stack
            .put(json!({"PK": {"S": key}, "SK": {"S": "v0"}, "Latest": latest}))
            .await;
    }
    write(&stack, json!({"ID": "good"})).await;
    settled(&stack).await;
    eventually("all records", async || {
        (stack.mapping.counters.waiting() == 0 && stack.mapping.counters.matched.load(Relaxed) == 3).then_some(())
    })
    .await;
    assert_eq!(stack.mapping.counters.retries.load(Relaxed), 0);
    assert_eq!(table(&stack).await["#vzero#x"].items().len(), 1);
}

/// "A version item and a REMOVE never reach the function."
#[tokio::test]
async fn only_new_images_of_latest_items_reach_the_function() {
    use std::sync::atomic::Ordering::Relaxed;
    let stack = start().await;
    if stack.endpoint.differs(
        "only_new_images_of_latest_items_reach_the_function",
        &["inserted-record"],
    ) {
        return;
    }
    for _ in 0..5 {
        write(&stack, json!({"ID": "E"})).await;
    }
    settled(&stack).await;
    stack.delete("E", "v0").await;
    // 5 of v0, 5 of version items, 1 removal, and the layout of the table.
    eventually("all records", async || {
        (stack.mapping.counters.read.load(Relaxed) == 12).then_some(())
    })
    .await;
    assert_eq!(stack.mapping.counters.matched.load(Relaxed), 5);
}
