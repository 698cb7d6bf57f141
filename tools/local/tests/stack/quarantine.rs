//! Stream records that can never become a version do not delay others, and are kept.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use shared::domain::entity::EntityId;

use crate::support::{
    documents, eventually, item, logged, quarantined, settled, start, start_with, table, template, write,
};

const GOOD: usize = 100;

/// Reports the longest time from the response of writer-fn to the version item.
#[tokio::test]
async fn two_poison_records_delay_no_good_record() {
    let stack = start().await;
    // A version item that another client put makes the version of the next update a conflict.
    write(&stack, json!({"ID": "conflict", "State": "OK"})).await;
    eventually("the first version", async || {
        (item(&stack, "conflict", "v1").await != Value::Null).then_some(())
    })
    .await;
    let manual = json!({"PK": {"S": "conflict"}, "SK": {"S": "v2"}, "State": {"S": "manual"}});
    stack.put(manual.clone()).await;
    write(&stack, json!({"ID": "conflict", "State": "BAD"})).await;
    let malformed = json!({"PK": {"S": "malformed"}, "SK": {"S": "v0"}, "Latest": {"S": "one"}, "State": {"S": "BAD"}});
    stack.put(malformed.clone()).await;

    let (waiting, longest) = (RefCell::new(BTreeMap::new()), Cell::new(Duration::ZERO));
    let look = async || {
        let table = table(&stack).await;
        waiting.borrow_mut().retain(|id, written: &mut Instant| {
            longest.set(longest.get().max(written.elapsed()));
            table.get(id).is_none_or(|items| items.len() != 2)
        });
        waiting.borrow().is_empty().then_some(())
    };
    for number in 0..GOOD {
        let id = format!("good#{number}");
        assert_eq!(write(&stack, json!({"ID": id, "A": number})).await.0, "Written");
        waiting.borrow_mut().insert(id, Instant::now());
        look().await;
    }
    eventually("the good versions", look).await;
    #[allow(clippy::print_stdout, reason = "a figure of the documentation")]
    {
        println!(
            "longest wait of {GOOD} good records beside 2 poison records: {:?}",
            longest.get()
        );
    }

    let image = |record: &str| serde_json::from_str::<Value>(record).unwrap()["dynamodb"]["NewImage"].clone();
    for (id, kind) in [("conflict", "Conflict"), ("malformed", "Malformed")] {
        let record = quarantined(&stack, id).await;
        assert_eq!(record.kind, kind);
        assert_eq!(image(&record.record)["State"], json!({"S": "BAD"}), "{id}");
        assert!(!record.reason.contains("BAD"), "{}", record.reason);
    }
    assert_eq!(item(&stack, "conflict", "v2").await, manual);
    // Nothing was delivered twice, and nothing left the table.
    assert_eq!(stack.mapping.counters.get().retries, 0);
    assert!(documents(&stack.failed).is_empty());
}

/// Alarms count these lines, so no `LogLevel` hides them, also those of versions that writer-fn put itself.
#[tokio::test]
async fn quarantine_and_a_time_far_ahead_are_logged_at_every_level() {
    let stack = start_with(template(&[("LogLevel", "ERROR")])).await;
    let time = "2999-01-01T00:00:00.000000000Z";
    let malformed = json!({"State": {"S": "secret"}});
    let ahead = json!({
        "Latest": {"N": "1"}, "RecordedVersion": {"N": "1"}, "RecordedAt": {"S": time}, "State": {"S": "secret"},
    });
    for (id, mut latest, is_inline, outcome) in [
        ("secret", malformed, false, "Quarantined"),
        ("secret ahead", ahead.clone(), false, "RecordedAhead"),
        ("secret inline", ahead, true, "RecordedAhead"),
    ] {
        (latest["PK"], latest["SK"]) = (json!({"S": id}), json!({"S": "v0"}));
        if is_inline {
            let mut version = latest.clone();
            version["SK"] = json!({"S": "v1"});
            version
                .as_object_mut()
                .unwrap()
                .retain(|name, _| !["Latest", "RecordedVersion"].contains(&name.as_str()));
            stack.put(version).await;
        }
        stack.put(latest).await;
        let digest = json!(EntityId::new(id).unwrap().digest());
        let line = eventually("the line", async || {
            let mut lines = logged(&stack, "stream-fn").into_iter();
            lines.find(|line| line["message"] == "record" && line["entity"] == digest)
        })
        .await;
        assert_eq!((&line["level"], &line["outcome"]), (&json!("ERROR"), &json!(outcome)));
        assert!(!line.to_string().contains("secret"), "{line}");
        if outcome == "RecordedAhead" {
            assert_eq!(line["version"], 1);
            assert_eq!(item(&stack, id, "v1").await["RecordedAt"], json!({"S": time}));
        }
    }
}

/// A latest item of another program at a reserved key makes no version, and delays nothing.
#[tokio::test]
async fn a_latest_item_at_a_reserved_key_is_skipped() {
    let stack = start().await;
    for (key, latest) in [("#vzero", json!({"S": "x"})), ("#vzero#x", json!({"N": "1"}))] {
        stack
            .put(json!({"PK": {"S": key}, "SK": {"S": "v0"}, "Latest": latest}))
            .await;
    }
    write(&stack, json!({"ID": "good"})).await;
    settled(&stack).await;
    eventually("all records", async || {
        (stack.mapping.counters.get().waiting() == 0 && stack.mapping.counters.get().matched == 3).then_some(())
    })
    .await;
    assert_eq!(stack.mapping.counters.get().retries, 0);
    assert_eq!(table(&stack).await["#vzero#x"].len(), 1);
}
