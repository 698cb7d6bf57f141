//! The guarantees of the README, on a running stack.

use futures::future::join_all;
use serde_json::{Value, json};

use crate::support::{
    documents, eventually, invoke, item, settled, start, start_with, start_without_stream_fn, table, template, write,
};

fn written(version: u64) -> (String, Value) {
    ("Written".to_owned(), json!(version))
}

fn outcome(outcome: &str, detail: impl Into<Value>) -> (String, Value) {
    (outcome.to_owned(), detail.into())
}

/// "Concurrent updates of one entity get different versions, without gaps."
#[tokio::test]
async fn concurrent_invocations_get_each_version_once() {
    let stack = start().await;
    let answers = (0..64).map(|n| write(&stack, json!({"ID": "Equipment#1", "Writer": n})));
    let mut versions: Vec<_> = join_all(answers)
        .await
        .into_iter()
        .map(|(_, version)| version.as_u64().unwrap())
        .collect();
    versions.sort_unstable();
    assert_eq!(versions, (1..=64).collect::<Vec<_>>());
    let table = settled(&stack).await;
    assert_eq!(table["Equipment#1"].items().len(), 65);
}

#[tokio::test]
async fn an_update_changes_its_attributes_and_keeps_the_others() {
    let stack = start().await;
    if stack
        .endpoint
        .differs("an_update_changes_its_attributes_and_keeps_the_others", &["type-names"])
    {
        return;
    }
    let first = json!({"ID": "E", "RequestId": "r1", "A": "a", "N": 1.50, "L": [1, null], "M": {"x": true}, "Gone": 1});
    assert_eq!(write(&stack, first).await, written(1));
    assert_eq!(
        write(&stack, json!({"ID": "E", "RequestId": "r2", "A": "b", "Gone": null})).await,
        written(2)
    );
    settled(&stack).await;
    let mut expected = json!({
        "PK": {"S": "E"}, "SK": {"S": "v1"}, "RequestId": {"S": "r1"}, "A": {"S": "a"}, "N": {"N": "1.5"},
        "L": {"L": [{"N": "1"}, {"NULL": true}]}, "M": {"M": {"x": {"BOOL": true}}}, "Gone": {"N": "1"},
    });
    assert_eq!(unrecorded(item(&stack, "E", "v1").await), expected);
    expected["SK"] = json!({"S": "v2"});
    expected["RequestId"] = json!({"S": "r2"});
    expected["A"] = json!({"S": "b"});
    expected.as_object_mut().unwrap().remove("Gone");
    assert_eq!(unrecorded(item(&stack, "E", "v2").await), expected);
}

/// Removes the time of a version and the hash of its update, which every version has, and `RecordedVersion` of `v0`.
fn unrecorded(mut item: Value) -> Value {
    let members = item.as_object_mut().unwrap();
    for name in ["RecordedAt", "RequestPayload", "V0Id"] {
        assert!(members.remove(name).is_some(), "{name}");
    }
    members.remove("RecordedVersion");
    // The last digits of an entry are the time at which the request was sent.
    if let Some(requests) = members.get_mut("RecentRequests") {
        for (_, request) in requests["M"].as_object_mut().unwrap() {
            let number = request["N"].as_str().unwrap();
            *request = json!(number[..number.find('.').unwrap() + 6]);
        }
    }
    item
}

/// "The same update, delivered again, is answered with the version it got."
#[tokio::test]
async fn a_redelivered_update_is_a_duplicate() {
    let stack = start().await;
    let update = json!({"ID": "E", "RequestId": "r1", "A": 1});
    assert_eq!(write(&stack, update.clone()).await, written(1));
    assert_eq!(write(&stack, update.clone()).await, outcome("Duplicate", 1));
    let conditional = json!({"ID": "E", "RequestId": "r2", "ExpectedVersion": 1});
    assert_eq!(write(&stack, conditional.clone()).await, written(2));
    assert_eq!(write(&stack, conditional).await, outcome("Duplicate", 2));
    // Without a RequestId, each invocation is a new update.
    assert_eq!(write(&stack, json!({"ID": "E"})).await, written(3));
    assert_eq!(write(&stack, json!({"ID": "E"})).await, written(4));
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
    assert_eq!(write(&stack, expecting(1)).await, conflict(1, 0));
    assert_eq!(write(&stack, expecting(0)).await, written(1));
    assert_eq!(write(&stack, expecting(0)).await, conflict(0, 1));
    assert_eq!(write(&stack, expecting(1)).await, written(2));
    assert_eq!(write(&stack, expecting(1)).await, conflict(1, 2));
    settled(&stack).await;
    assert!(item(&stack, "E", "v2").await.get("ExpectedVersion").is_none());
}

#[tokio::test]
async fn a_tombstone_is_a_version_and_the_next_update_revives() {
    let stack = start().await;
    write(&stack, json!({"ID": "E", "A": 1})).await;
    assert_eq!(write(&stack, json!({"ID": "E", "Deleted": true})).await, written(2));
    assert_eq!(write(&stack, json!({"ID": "E", "B": 2})).await, written(3));
    settled(&stack).await;
    let deleted = json!({"BOOL": true});
    assert_eq!(item(&stack, "E", "v1").await.get("Deleted"), None);
    assert_eq!(item(&stack, "E", "v2").await.get("Deleted"), Some(&deleted));
    let revived = item(&stack, "E", "v3").await;
    assert_eq!((revived.get("Deleted"), revived.get("A")), (None, None));
    assert_eq!(revived["B"], json!({"N": "2"}));
}

#[tokio::test]
async fn with_ordering_by_time_an_older_update_is_stale() {
    let stack = start_with(template(&[("Ordering", "time")])).await;
    let at = |time: &str| json!({"ID": "E", "Time": time});
    assert_eq!(write(&stack, at("2020-11-01T20:04:00")).await, written(1));
    assert_eq!(write(&stack, at("2020-11-01T20:03:59.999Z")).await, outcome("Stale", 1));
    assert_eq!(write(&stack, at("2020-11-01T21:04:00+01:00")).await, written(2));
    assert_eq!(
        write(&stack, json!({"ID": "E", "Timestamp": 1_604_261_040_001_i64})).await,
        written(3)
    );
    assert_eq!(
        write(
            &stack,
            json!({"ID": "E", "Timestamp": 1_604_261_040_000_i64, "Deleted": true})
        )
        .await,
        outcome("Stale", 3)
    );
    let (kind, message) = write(&stack, json!({"ID": "E"})).await;
    assert_eq!(
        (kind.as_str(), message),
        (
            "InvalidEvent",
            json!("the event is invalid: Time is missing, and updates are ordered by time")
        )
    );
    settled(&stack).await;
    assert_eq!(
        item(&stack, "E", "v1").await["Timestamp"],
        json!({"N": "1604261040000"})
    );
    assert_eq!(
        item(&stack, "E", "v3").await["Timestamp"],
        json!({"N": "1604261040001"})
    );
}

#[tokio::test]
async fn version_numbers_may_exceed_the_width() {
    let stack = start_with(template(&[("VersionDigits", "2")])).await;
    for version in 1..=101 {
        assert_eq!(write(&stack, json!({"ID": "E"})).await, written(version));
    }
    let table = settled(&stack).await;
    let keys: Vec<_> = table["E"].items().iter().map(|(sk, _)| sk.clone()).collect();
    let versions = (1..=101).map(|version| format!("v{version:02}"));
    let expected: Vec<_> = ["v0".to_owned()].into_iter().chain(versions).collect();
    assert_eq!(keys, expected);
}

#[tokio::test]
async fn a_fifo_group_stops_at_its_first_failure_and_other_groups_continue() {
    let stack = start().await;
    let message = |id: &str, group: Option<&str>, body: Value| {
        let attributes = group.map_or(json!({}), |group| json!({"MessageGroupId": group}));
        json!({"messageId": id, "body": body.to_string(), "attributes": attributes, "eventSource": "aws:sqs"})
    };
    let good = |entity: &str| json!({"ID": entity});
    let fifo = json!({"Records": [
        message("1", Some("g"), good("a")), message("2", Some("g"), json!({})), message("3", Some("g"), good("b")),
        message("4", Some("h"), good("c")), message("5", Some("h"), good("c")),
    ]});
    let failed = |ids: &[&str]| json!({"batchItemFailures": ids.iter().map(|id| json!({"itemIdentifier": id})).collect::<Vec<_>>()});
    assert_eq!(invoke(&stack, "writer-fn", &fifo).await, failed(&["2", "3"]));
    let standard = json!({"Records": [
        message("6", None, good("d")), message("7", None, json!([])), message("8", None, good("d")),
        message("9", None, json!({"ID": "d", "ExpectedVersion": 7})), message("6", None, good("e")),
    ]});
    assert_eq!(invoke(&stack, "writer-fn", &standard).await, failed(&["7", "9"]));
    settled(&stack).await;
    let latest = async |entity: &str| item(&stack, entity, "v0").await["Latest"]["N"].clone();
    assert_eq!(latest("a").await, "1");
    assert_eq!(latest("b").await, Value::Null);
    assert_eq!(latest("c").await, "2");
    assert_eq!(latest("d").await, "2");
    // Duplicates are success.
    let again = json!({"Records": [message("8", None, good("d"))]});
    assert_eq!(invoke(&stack, "writer-fn", &again).await, failed(&[]));
    assert_eq!(latest("d").await, "2");
    // A failure without an item identifier fails the batch.
    let unnamed = json!({"Records": [{"body": "{}", "eventSource": "aws:sqs"}]});
    assert_eq!(invoke(&stack, "writer-fn", &unnamed).await["errorType"], "InvalidEvent");
}

#[tokio::test]
async fn a_rejected_request_is_an_invalid_event_without_its_values() {
    let stack = start().await;
    let secret = "secret ".repeat(60_000);
    let answer = invoke(&stack, "writer-fn", &json!({"ID": "E", "A": secret})).await;
    assert_eq!(answer["errorType"], "InvalidEvent");
    stack
        .put(json!({"PK": {"S": "F"}, "SK": {"S": "v0"}, "Latest": {"S": "secret"}}))
        .await;
    let answer = invoke(&stack, "writer-fn", &json!({"ID": "F"})).await;
    assert_eq!(answer["errorType"], "InvalidEvent");
    assert!(!answer.to_string().contains("secret"), "{answer}");
    let logs = std::fs::read_to_string(stack.logs.join("writer-fn.log")).unwrap();
    assert!(
        logs.contains("\"outcome\":\"InvalidEvent\"") && !logs.contains("secret"),
        "{logs}"
    );
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
        (stack.activity.figures().waiting == 0 && stack.mapping.counters.matched.load(Relaxed) == 3).then_some(())
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

/// "The code holds where the filter does not."
#[tokio::test]
async fn without_a_filter_the_function_skips_version_items() {
    use std::sync::atomic::Ordering::Relaxed;
    let mut template = template(&[]);
    template.mapping.filters = local::mapping::filter::Filters::default();
    let stack = start_with(template).await;
    if stack.endpoint.differs(
        "without_a_filter_the_function_skips_version_items",
        &["inserted-record"],
    ) {
        return;
    }
    for _ in 0..5 {
        write(&stack, json!({"ID": "E"})).await;
    }
    settled(&stack).await;
    eventually("all records", async || {
        (stack.mapping.counters.read.load(Relaxed) == 11).then_some(())
    })
    .await;
    assert_eq!(table(&stack).await["E"].items().len(), 6);
    // A version item is skipped, and not treated as a malformed latest item.
    assert_eq!(stack.mapping.counters.retries.load(Relaxed), 0);
}

#[tokio::test]
async fn one_malformed_record_does_not_fail_the_rest() {
    let stack = start().await;
    let record = |number: &str, entity: &str, latest: Value| {
        let image = json!({"PK": {"S": entity}, "SK": {"S": "v0"}, "Latest": latest});
        let keys = json!({"PK": {"S": entity}, "SK": {"S": "v0"}});
        json!({"eventName": "INSERT", "dynamodb": {"Keys": keys, "NewImage": image, "SequenceNumber": number}})
    };
    let one = json!({"N": "1"});
    let batch = json!({"Records": [
        record("1", "a", one.clone()), record("2", "b", json!({"Q": 1})), record("3", "c", one.clone()), "x",
    ]});
    // A failed record without a sequence number fails the batch, but the other versions are stored.
    assert_eq!(invoke(&stack, "stream-fn", &batch).await["errorType"], "Malformed");
    assert_ne!(item(&stack, "a", "v1").await, Value::Null);
    assert_ne!(item(&stack, "c", "v1").await, Value::Null);
    let batch = json!({"Records": [
        record("1", "a", one.clone()), record("2", "b", json!({"Q": 1})), record("3", "c", one.clone()),
        record("4", "b", json!({"N": "1.5"})),
    ]});
    // Their records are kept in quarantine.
    assert_eq!(
        invoke(&stack, "stream-fn", &batch).await,
        json!({"batchItemFailures": []})
    );
    for key in ["quarantine#2", "quarantine#4"] {
        assert_eq!(item(&stack, "b", key).await["Kind"], json!({"S": "Malformed"}));
    }
    for odd in [json!([]), json!({}), json!({"Records": 7}), json!(null), json!("x")] {
        assert_eq!(
            invoke(&stack, "stream-fn", &odd).await["errorType"],
            "InvalidEvent",
            "{odd}"
        );
    }
    let logs = std::fs::read_to_string(stack.logs.join("stream-fn.log")).unwrap();
    assert!(!logs.contains("panicked"), "{logs}");
}

/// "The same items and responses in each mode", while stream-fn runs.
#[tokio::test]
async fn every_write_mode_produces_the_same_table() {
    let mut tables = Vec::new();
    for mode in ["stream", "inline", "transaction"] {
        let stack = start_with(template(&[("WriteMode", mode), ("SkipUnchanged", "true")])).await;
        let update = |request: &str, state: &str| json!({"ID": "E", "RequestId": request, "State": state});
        assert_eq!(write(&stack, update("r1", "OK")).await, written(1), "{mode}");
        assert_eq!(write(&stack, update("r2", "BAD")).await, written(2), "{mode}");
        assert_eq!(
            write(&stack, update("r2", "BAD")).await,
            outcome("Duplicate", 2),
            "{mode}"
        );
        assert_eq!(
            write(&stack, update("r3", "BAD")).await,
            outcome("Unchanged", 2),
            "{mode}"
        );
        let collections = settled(&stack).await;
        let items = collections["E"]
            .items()
            .iter()
            .map(|(_, item)| unrecorded(serde_json::to_value(item).unwrap()));
        let mut items: Vec<_> = items.collect();
        items.iter_mut().for_each(Value::sort_all_objects);
        tables.push(items);
        assert!(documents(&stack.failed).is_empty());
    }
    assert_eq!(tables[0], tables[1]);
    assert_eq!(tables[0], tables[2]);
}

/// "The width of version keys cannot change."
#[tokio::test]
async fn a_writer_with_a_different_width_writes_nothing() {
    let stack = start().await;
    let mut config = item(&stack, "#vzero", "config").await;
    config["VersionDigits"] = json!({"N": "10"});
    stack.put(config).await;
    assert_eq!(write(&stack, json!({"ID": "E"})).await.0, "Layout");
    let logs = std::fs::read_to_string(stack.logs.join("writer-fn.log")).unwrap();
    assert!(logs.contains("have 10 digits, not 1"), "{logs}");
    assert_eq!(item(&stack, "E", "v0").await, Value::Null);
    // With the stored width it starts, also with a width other than the default.
    let wide = start_with(template(&[("VersionDigits", "10")])).await;
    assert_eq!(write(&wide, json!({"ID": "E"})).await, written(1));
    settled(&wide).await;
    assert_eq!(
        item(&wide, "#vzero", "config").await["VersionDigits"],
        json!({"N": "10"})
    );
}
