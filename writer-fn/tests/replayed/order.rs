//! Order of the updates of a batch after a failure.

use serde_json::{Value, json};
use shared::config::{
    Config,
    Ordering::{self, Arrival, Time},
};
use testkit::{
    replay::{self, failures},
    scripted::{Reply, Scripted},
};
use writer_fn::Writer;

/// Messages, each given by the request id of its update, its entity, and its FIFO message group if it has one.
fn messages(list: &str) -> Vec<Value> {
    let message = |words: &str| {
        let mut words = words.split(' ');
        let (id, entity) = (words.next().unwrap(), words.next().unwrap());
        let body = json!({"ID": entity, "RequestId": id, "Timestamp": 1}).to_string();
        let attributes = words.next().map_or(json!({}), |group| json!({"MessageGroupId": group}));
        super::message(id, &body, &attributes)
    };
    list.split(", ").map(message).collect()
}

/// The reply to the update with this request id.
type Failing = (&'static str, Reply);

fn error(code: &str) -> Reply {
    Reply::now(json!({"__type": format!("com.amazonaws.dynamodb.v20120810#{code}")}))
}

/// A conditional check failure of an entity at this version.
fn latest_is(version: u64) -> Reply {
    Reply::rejected(Some(
        json!({"Latest": {"N": version.to_string()}, "RequestId": {"S": "other"}}),
    ))
}

/// Handles a batch. Returns the failed messages, and the request ids whose updates were sent, each once.
async fn handle(ordering: Ordering, messages: &[Value], failing: &[Failing]) -> [String; 2] {
    let replies = failing.to_vec();
    let http = Scripted::new(move |operation, body| {
        assert_eq!(operation, "UpdateItem");
        let id = body["ExpressionAttributeValues"][":request"]["S"].as_str().unwrap();
        let reply = replies.iter().find(|(failing, _)| *failing == id);
        let written = || Reply::now(json!({"Attributes": {"Latest": {"N": "1"}}}));
        reply.map_or_else(written, |(_, reply)| reply.clone())
    });
    let config = Config {
        ordering,
        ..replay::settings()
    };
    let writer = Writer::new(replay::client(http.clone()), &config).with_checked_layout();
    let response = super::handle(&writer, &super::batch(messages)).await;
    let mut sent: Vec<_> = super::sent(&http).into_iter().map(|(id, _)| id).collect();
    sent.dedup();
    [failures(&response), sent].map(|ids| ids.join(" "))
}

#[tokio::test(start_paused = true)]
async fn after_a_retryable_failure_no_later_update_of_the_entity_is_applied() {
    let messages = messages("1 E, 2 E, 3 E, 4 F, 5 E");
    for reply in [
        error("ThrottlingException"),
        error("InternalServerError"),
        error("ResourceNotFoundException"),
        error("ValidationException"),
        Reply::Never,
    ] {
        let [failed, sent] = handle(Arrival, &messages, &[("2", reply.clone())]).await;
        assert_eq!(failed, "2 3 5", "{reply:?}");
        assert!(
            !sent.contains(['3', '5']) && sent.contains('1') && sent.contains('4'),
            "{sent}"
        );
        // By time, an older update cannot replace a newer one.
        let [failed, _] = handle(Time, &messages, &[("2", reply)]).await;
        assert_eq!(failed, "2");
    }
}

#[tokio::test(start_paused = true)]
async fn an_update_that_can_never_succeed_stops_no_other_update_of_its_entity() {
    let mut messages = messages("1 E, 2 E, 3 E");
    // The expected version is in the past.
    messages[1]["body"] = json!(json!({"ID": "E", "RequestId": "2", "ExpectedVersion": 3}).to_string());
    assert_eq!(handle(Arrival, &messages, &[("2", latest_is(7))]).await, ["2", "1 2 3"]);
    let reused = json!({"Latest": {"N": "7"}, "RequestId": {"S": "2"}, "RequestPayload": {"S": "other"}});
    assert_eq!(
        handle(Arrival, &messages, &[("2", Reply::rejected(Some(reused)))]).await,
        ["2", "1 2 3"]
    );
    messages[1]["body"] = json!(json!({"ID": "E", "RequestId": "2", "PK": "reserved"}).to_string());
    assert_eq!(handle(Arrival, &messages, &[]).await, ["2", "1 3"]);
}

/// A failed update must not be applied after a later one of its batch made that possible.
#[tokio::test(start_paused = true)]
async fn an_update_that_a_later_one_makes_possible_stops_its_entity() {
    let update = |id: &str, mut body: Value| {
        body["ID"] = json!("E");
        body["RequestId"] = json!(id);
        json!({"messageId": id, "body": body.to_string(), "attributes": {}})
    };
    // The entity is at version 4. The second update would make it version 5, which the first one expects.
    let conflict = [
        update("u1", json!({"ExpectedVersion": 5, "State": "A-old"})),
        update("u2", json!({"State": "B-new"})),
    ];
    // The item has 390 KB. The second update would make room for the first one.
    let too_large = [
        update("u1", json!({"Note": "x".repeat(30_000)})),
        update("u2", json!({"Big": null})),
    ];
    for (messages, reply) in [(conflict, latest_is(4)), (too_large, error("ValidationException"))] {
        assert_eq!(handle(Arrival, &messages, &[("u1", reply)]).await, ["u1 u2", "u1"]);
        // In the next delivery, a success of the first one comes first.
        assert_eq!(handle(Arrival, &messages, &[]).await, ["", "u1 u2"]);
    }
}

/// A FIFO group stops at any failure. Its messages that were not started are not applied after later ones of their entity.
#[tokio::test(start_paused = true)]
async fn a_stopped_group_stops_the_entities_of_its_messages() {
    let mut messages = messages("1 E g, 2 F g, 3 F h, 4 E h, 5 G i");
    // An update that can never be applied stops the group too.
    messages[0]["body"] = json!(json!({"ID": "E", "RequestId": "1", "Timestamp": 1, "ExpectedVersion": 3}).to_string());
    assert_eq!(
        handle(Arrival, &messages, &[("1", latest_is(7))]).await,
        ["1 2 3 4", "1 5"]
    );
    assert_eq!(
        handle(Time, &messages, &[("1", latest_is(7))]).await,
        ["1 2", "1 3 4 5"]
    );
}
