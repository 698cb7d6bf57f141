//! Updates of one entity by a process that remembers the requests which it has checked, with replayed responses.

use serde_json::{Value, json};
use shared::{
    config::{Ordering, Window, WriteOptions},
    domain::{
        request_id::{RequestHash, RequestId},
        time::EpochMillis,
    },
};
use testkit::replay::rejected;
use writer_fn::{
    counter::{self, WriteOutcome, checked::Checked},
    update::{Update, sent_at::SentAt},
};

use crate::failures::{history, replaying, v0, version};

/// Time at which all messages of an entity are sent, in milliseconds.
const SENT: i64 = 1_795_328_688_000;

/// Applies messages that create these versions, and returns the guards of their updates, and the versions that they read.
async fn guards(responses: &[&[Value]], messages: &[(&str, u64)]) -> String {
    let (store, replay) = replaying(&responses.concat());
    let mut known = Checked::default();
    for (id, number) in messages {
        let mut update = Update::parse(json!({"ID": "E"}), id, Ordering::Arrival).unwrap();
        update.sent_at = Some(SentAt::exactly(EpochMillis::new(SENT)));
        let written = counter::write_after(&store, &update, WriteOptions::default(), &mut known).await;
        let version = version(*number);
        assert_eq!(written, Ok(WriteOutcome::Written { version }), "{id}");
    }
    let requests = replay.requests();
    let guard = |(operation, body): &(String, Value)| match operation.as_str() {
        "UpdateItem" => {
            let values = &body["ExpressionAttributeValues"];
            let number = |name: &str| Some(format!("{name} {}", values[name]["N"].as_str()?));
            let known = values[":known"]["S"].as_str().unwrap_or_default();
            number(":sent").or(number(":base")).unwrap_or_default() + known
        }
        "BatchGetItem" => {
            let keys = body.pointer("/RequestItems/Table/Keys").unwrap().as_array().unwrap();
            let keys = keys.iter().map(|key| key["SK"]["S"].as_str().unwrap());
            keys.collect::<Vec<_>>().join(" ")
        }
        _ => operation.clone(),
    };
    requests.iter().map(guard).collect::<Vec<_>>().join(", ")
}

#[tokio::test(start_paused = true)]
async fn one_search_is_enough_for_the_messages_of_an_entity() {
    let stored = |latest: u64, dropped: u64, since: i64, incarnation: &str| {
        let mut item = v0(&latest.to_string(), "a");
        item["V0Id"] = json!({"S": incarnation});
        item["RecentRequests"] = json!({"M": {"h": {"N": latest.to_string()}}});
        item["RequestsDropped"] = json!({"N": dropped.to_string()});
        item["RequestsSince"] = json!({"N": since.to_string()});
        item
    };
    let searched = |stored: Value, read: std::ops::RangeInclusive<u64>| {
        let mut found = history(read, |number| format!("r-{number}"));
        for item in found["Responses"]["Table"].as_array_mut().unwrap() {
            item["RecordedAt"] = json!({"S": "2020-11-01T20:04:00.000000000Z"});
        }
        // Another writer has dropped this request before the latest item is read again.
        let mut before = stored.clone();
        before["RecentRequests"]["M"][RequestHash::of(&RequestId::new("gone").unwrap()).key()] = json!({"N": "2"});
        [rejected(Some(before)), found, json!({"Item": stored})]
    };
    let updated = |latest: u64| json!({"Attributes": {"Latest": {"N": latest.to_string()}}});
    let sent = format!(":sent {SENT}");
    let after = SENT + 1000;
    let first = searched(stored(3, 1, after, "q83H"), 1..=1);
    // Another writer has dropped versions 7 and 8 when the fourth message arrives: only these are searched, however old.
    let fourth = searched(stored(9, 8, after, "q83H"), 7..=8);
    // The entity was purged.
    let last = searched(stored(13, 12, after, "Zm2_"), 12..=12);
    let written = [4, 5, 6, 10, 11, 14].map(updated);
    let responses = [&first[..], &written[..3], &fourth, &written[3..5], &last, &written[5..]];
    let messages = [("x", 4), ("gone", 5), ("y", 6), ("z", 10), ("r-7", 11), ("p", 14)];
    let all = (1..=12)
        .map(|number| format!("v{number}"))
        .collect::<Vec<_>>()
        .join(" ");
    // The second message and the fifth are not known to be new: their first attempts need the send time again.
    let expected = format!(
        "{sent}, v1, GetItem, :base 3, {sent}, :base 5q83H, :base 6q83H, v7 v8, GetItem, :base 9, {sent}, :base 11q83H, {all}, GetItem, :base 13"
    );
    assert_eq!(guards(&responses, &messages).await, expected);
    // A map that has all requests since the messages were sent needs none.
    let mut full = stored(3, 1, SENT - 1000, "q83H");
    let requests = (0..Window::default().full()).map(|number| (format!("h{number}"), json!({"N": "3"})));
    full["RecentRequests"] = json!({"M": requests.collect::<serde_json::Map<_, _>>()});
    let full = [rejected(Some(full))];
    let messages = [("x", 4), ("y", 5)];
    let expected = format!("{sent}, :base 3, :base 4q83H");
    assert_eq!(guards(&[&full, &written[..2]], &messages).await, expected);
}
