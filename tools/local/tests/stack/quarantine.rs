//! Stream records that can never become a version do not delay others, and are kept.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    sync::atomic::Ordering::Relaxed,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use shared::domain::entity::EntityId;

use crate::support::{documents, eventually, item, start, start_with, table, template, write};

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
            table.get(id).is_none_or(|items| items.items().len() != 2)
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

    let quarantined = async |id: &str| {
        operations::read::quarantined::quarantined(&stack.store, &EntityId::new(id).unwrap())
            .await
            .unwrap()
    };
    let image = |record: &str| serde_json::from_str::<Value>(record).unwrap()["dynamodb"]["NewImage"].clone();
    for (id, kind) in [("conflict", "Conflict"), ("malformed", "Malformed")] {
        let record = eventually("quarantine", async || quarantined(id).await.pop()).await;
        assert_eq!(record.kind, kind);
        assert_eq!(image(&record.record)["State"], json!({"S": "BAD"}), "{id}");
        assert!(!record.reason.contains("BAD"), "{}", record.reason);
    }
    assert_eq!(item(&stack, "conflict", "v2").await, manual);
    // Nothing was delivered twice, and nothing left the table.
    assert_eq!(stack.mapping.counters.retries.load(Relaxed), 0);
    assert!(documents(&stack.failed).is_empty());
}

/// The text of the record is longer than one item can be.
#[tokio::test]
async fn a_record_of_an_item_of_maximum_size_is_quarantined() {
    let stack = start().await;
    // Six characters of JSON for each byte.
    let image = json!({"PK": {"S": "large"}, "SK": {"S": "v0"}, "A": {"S": "\u{1}".repeat(390_000)}});
    stack.put(image.clone()).await;
    let entity = EntityId::new("large").unwrap();
    let record = eventually("quarantine", async || {
        operations::read::quarantined::quarantined(&stack.store, &entity)
            .await
            .unwrap()
            .pop()
    })
    .await;
    let stored: Value = serde_json::from_str(&record.record).unwrap();
    assert_eq!(stored["dynamodb"]["NewImage"], image);
    assert!(record.sort_keys().len() > 5, "{:?}", record.sort_keys());
    stack.store.delete_quarantined(&record).await.unwrap();
    assert_eq!(table(&stack).await["large"].items().len(), 1);
}

/// The alarm counts these lines, so no `LogLevel` hides them.
#[tokio::test]
async fn quarantine_is_logged_at_every_level() {
    let stack = start_with(template(&[("LogLevel", "ERROR")])).await;
    stack
        .put(json!({"PK": {"S": "secret"}, "SK": {"S": "v0"}, "State": {"S": "secret"}}))
        .await;
    let line = eventually("the line", async || {
        let log = std::fs::read_to_string(stack.logs.join("stream-fn.log")).unwrap_or_default();
        let mut lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines.find(|line| line["message"] == "record")
    })
    .await;
    let entity = EntityId::new("secret").unwrap();
    assert_eq!(
        [&line["level"], &line["outcome"], &line["entity"]],
        [&json!("ERROR"), &json!("Quarantined"), &json!(entity.digest())]
    );
    assert!(!line.to_string().contains("secret"), "{line}");
}

/// Another alarm counts these lines, also those of versions that writer-fn put itself.
#[tokio::test]
async fn a_time_far_ahead_is_logged_at_every_level() {
    let stack = start_with(template(&[("LogLevel", "ERROR")])).await;
    let time = "2999-01-01T00:00:00.000000000Z";
    for (entity, is_inline) in [("secret", false), ("secret inline", true)] {
        let version = json!({
            "PK": {"S": entity}, "SK": {"S": "v1"}, "RecordedAt": {"S": time}, "State": {"S": "secret"},
        });
        let mut latest = version.clone();
        latest["SK"] = json!({"S": "v0"});
        latest["Latest"] = json!({"N": "1"});
        latest["RecordedVersion"] = json!({"N": "1"});
        if is_inline {
            stack.put(version).await;
        }
        stack.put(latest).await;
        let digest = json!(EntityId::new(entity).unwrap().digest());
        let line = eventually("the line", async || {
            let log = std::fs::read_to_string(stack.logs.join("stream-fn.log")).unwrap_or_default();
            let mut lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
            lines.find(|line| line["message"] == "record" && line["entity"] == digest)
        })
        .await;
        assert_eq!(
            [&line["level"], &line["outcome"], &line["version"]],
            [&json!("ERROR"), &json!("RecordedAhead"), &json!(1)]
        );
        assert!(!line.to_string().contains("secret"), "{line}");
        assert_eq!(item(&stack, entity, "v1").await["RecordedAt"], json!({"S": time}));
    }
}
