//! Messages and events that the types of `aws_lambda_events` reject as a whole, because of members that writer-fn does not
//! use or can do without. See `docs/adr/0022-event-types.md`. If a newer version of the crate accepts one, a test fails.

use aws_lambda_events::event::{eventbridge::EventBridgeEvent, sqs::SqsMessage};
use serde_json::{Value, json};
use shared::{
    config::Ordering,
    domain::{AttributeValue, change::Change},
};
use writer_fn::event::request::{self, Carrier, Message, Request};

fn messages(records: &[Value]) -> Vec<Message> {
    let event = json!({ "Records": records }).to_string();
    match request::parse(&event).unwrap() {
        Request::Batch(messages) => messages,
        Request::Update(_) => panic!("not a batch"),
    }
}

fn message(member: &str, value: &Value) -> Value {
    let mut message = json!({
        "messageId": "m", "receiptHandle": "r", "body": "{\"ID\": \"E\"}", "md5OfBody": "00",
        "attributes": {"ApproximateReceiveCount": "1", "SentTimestamp": "1000", "SenderId": "AIDA"},
        "messageAttributes": {}, "eventSource": "aws:sqs", "eventSourceARN": "arn:aws:sqs:x", "awsRegion": "x",
    });
    message[member] = value.clone();
    message
}

#[test]
fn unused_members_of_a_message_can_have_any_type() {
    let attribute = |attribute: Value| json!({ "a": attribute });
    for (member, value, is_accepted_by_crate) in [
        ("messageAttributes", json!({}), true),
        ("messageAttributes", json!(null), true),
        ("messageAttributes", json!([]), false),
        ("messageAttributes", attribute(json!(null)), false),
        ("messageAttributes", attribute(json!({"stringListValues": null})), false),
        ("messageAttributes", attribute(json!({"binaryValue": "AAE"})), false),
        ("messageAttributes", attribute(json!({"stringValue": 7})), false),
        ("attributes", json!(null), true),
        ("attributes", json!(7), false),
        ("attributes", json!({"SequenceNumber": 7}), false),
        ("attributes", json!({"AWSTraceHeader": null}), false),
        ("md5OfBody", json!(null), true),
        ("md5OfBody", json!(7), false),
        ("receiptHandle", json!({}), false),
        ("awsRegion", json!([]), false),
        ("a new member", json!(7), true),
    ] {
        let record = message(member, &value);
        let by_crate = serde_json::from_str::<SqsMessage>(&record.to_string());
        assert_eq!(by_crate.is_ok(), is_accepted_by_crate, "{member} {value}");
        let message = messages(&[record]).remove(0);
        assert_eq!(message.id.as_deref(), Some("m"), "{member} {value}");
        assert!(message.body.is_ok(), "{member} {value}");
    }
    // Members that SQS always sends can be missing, too.
    let message = messages(&[json!({"messageId": "m", "body": "{\"ID\": \"E\"}"})]).remove(0);
    assert!(message.id.is_some() && message.body.is_ok());
}

/// The response names the message. Without its id, the whole batch would fail.
#[test]
fn a_message_with_an_invalid_body_keeps_its_id() {
    for body in [json!(7), json!(null), json!({"ID": "E"})] {
        let record = message("body", &body);
        let by_crate = serde_json::from_str::<SqsMessage>(&record.to_string());
        assert_eq!(by_crate.is_ok(), body.is_null(), "{body}");
        let message = messages(&[record]).remove(0);
        assert_eq!(message.id.as_deref(), Some("m"), "{body}");
        assert!(message.body.is_err(), "{body}");
    }
}

#[test]
fn members_around_the_detail_of_an_event_can_have_any_type() {
    let event = |members: Value| {
        let mut event = json!({"detail-type": "t", "source": "s", "detail": {"ID": "E"}});
        event
            .as_object_mut()
            .unwrap()
            .extend(members.as_object().unwrap().clone());
        event
    };
    for (event, is_accepted_by_crate) in [
        (event(json!({})), true),
        // The input of a rule's target can be a template, without some of the members.
        (json!({"detail-type": "t", "detail": {"ID": "E"}}), false),
        (event(json!({"source": null})), false),
        (event(json!({"detail-type": null})), false),
        (event(json!({"time": "<time>"})), false),
        (event(json!({"time": "2026-11-22T00:00:00"})), false),
        (event(json!({"id": 7})), false),
        (event(json!({"resources": [1]})), false),
        (event(json!({"resources": "arn:aws:x"})), false),
        (event(json!({"account": 111_122_223_333_u64})), false),
    ] {
        let by_crate = serde_json::from_str::<EventBridgeEvent<Value>>(&event.to_string());
        assert_eq!(by_crate.is_ok(), is_accepted_by_crate, "{event}");
        let raw = event.to_string();
        let Request::Update(envelope) = request::parse(&raw).unwrap() else {
            panic!("a batch: {event}")
        };
        let update = envelope.open(&Carrier::invocation("lambda"), Ordering::Arrival);
        assert_eq!(update.unwrap().entity.as_str(), "E", "{event}");
    }
}

#[test]
fn the_detail_of_an_event_keeps_all_digits() {
    let digits = "12345678901234567890.123456789012345678";
    let event = format!(r#"{{"detail-type": "t", "detail": {{"ID": "E", "N": {digits}}}}}"#);
    let raw = event;
    let Request::Update(envelope) = request::parse(&raw).unwrap() else {
        panic!("a batch")
    };
    let update = envelope.open(&Carrier::invocation("lambda"), Ordering::Arrival);
    assert!(update.unwrap().changes["N"] == Change::Set(AttributeValue::N(digits.to_owned())));
}
