mod kinesis;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Map, Value, json};
use shared::config::Ordering;
use testkit::cases::{cases, patched};

use super::*;
use crate::{
    error::Error,
    event::envelope::MAX_PARTS,
    update::{Update, sent_at::SentAt},
};

/// Opens the only event or message.
fn content(event: &Value) -> Result<Vec<Update>, InvalidEvent> {
    match parse(&event.to_string())? {
        Request::Update(envelope) => envelope.open(&Carrier::invocation("lambda"), Ordering::Arrival),
        Request::Batch(mut messages) => {
            let message = messages.remove(0);
            message.body?.open(&message.carrier, Ordering::Arrival)
        }
        Request::Http(request) => Ok(vec![request.open("lambda", Ordering::Arrival)?]),
    }
}

/// Returns the first update of an event.
fn opened(event: &Value) -> Result<Update, InvalidEvent> {
    Ok(content(event)?.remove(0))
}

fn messages(event: &Value) -> Vec<Message> {
    match parse(&event.to_string()).unwrap() {
        Request::Batch(messages) => messages,
        _ => panic!("not a batch: {event}"),
    }
}

fn bridge(detail: &Value) -> Value {
    json!({"id": "bridge", "detail-type": "t", "source": "app", "time": "1970-01-01T00:00:02Z", "detail": detail})
}

fn sns(message: &Value) -> Value {
    let time = "1970-01-01T00:00:01.500Z";
    json!({"Type": "Notification", "MessageId": "sns", "Timestamp": time, "Message": message.to_string()})
}

#[test]
fn the_innermost_id_is_the_request_id() {
    let (update, own) = (json!({"ID": "E"}), json!({"ID": "E", "RequestId": "own"}));
    let like_envelope = json!({"ID": "E", "Records": [], "detail-type": "t", "detail": {}, "id": "x"});
    for (event, id) in [
        (update.clone(), "lambda"),
        (own.clone(), "own"),
        (bridge(&update), "bridge"),
        (json!({"detail-type": "t", "detail": update}), "lambda"),
        (sns(&update), "sns"),
        (sns(&bridge(&update)), "bridge"),
        (sns(&own), "own"),
        // An update with attributes that look like an envelope is an update.
        (like_envelope, "lambda"),
    ] {
        let update = opened(&event).unwrap();
        assert_eq!(
            (update.entity.as_str(), update.request_id.as_str()),
            ("E", id),
            "{event}"
        );
    }
}

#[test]
fn the_time_belongs_to_the_source_of_the_id() {
    let update = json!({"ID": "E"});
    let own = json!({"ID": "E", "RequestId": "own"});
    let named = json!({"ID": "E", "RequestId": "own", "RequestSentAt": "2026-11-22T00:00:00.5Z"});
    let in_millis = json!({"ID": "E", "RequestSentAt": 7});
    let without = |mut body: Value, name: &str| {
        body.as_object_mut().unwrap().remove(name);
        body
    };
    let hours = |hours: i64| hours * 3_600_000;
    // The event claims to be of the second 2, and the notification of 1.5.
    for (body, sent, earliest, latest) in [
        (update.clone(), 1000_i64, 1000_i64, 1000_i64),
        (own.clone(), 1000, 1000, 1000),
        // A time of the sender, by another clock.
        (named.clone(), 1_795_305_700_000, 1_795_305_590_500, 1_795_305_700_000),
        (in_millis.clone(), 20_000, 7 - 10_000, 20_000),
        // An event has the same time in each queue.
        (bridge(&update), 3000, 2000, 2000),
        (bridge(&own), 3000, 2000, 3000),
        (sns(&update), 3000, 1500, 1500),
        // Without a time, another queue can have delivered it.
        (without(bridge(&update), "time"), 3000, 3000 - hours(30), 3000),
        (without(sns(&update), "Timestamp"), 3000, 3000 - hours(30), 3000),
        (sns(&bridge(&update)), 3000, 2000, 2000),
        // Times after the message was sent.
        (named.clone(), 1000, 1000 - hours(30), 1000 + hours(30)),
        (bridge(&update), 1000, 1000 - hours(30), 2000),
        (bridge(&own), 1000, 1000 - hours(30), 2000),
    ] {
        let attributes = json!({
            "ApproximateReceiveCount": "1", "SentTimestamp": sent.to_string(), "SenderId": "AIDA",
        });
        let record = json!({"messageId": "m", "body": body.to_string(), "attributes": attributes});
        let message = messages(&json!({"Records": [record]})).remove(0);
        let content = message.body.unwrap().open(&message.carrier, Ordering::Arrival).unwrap();
        let update = &content[0];
        let bounds = update.sent_at.map(|sent| (sent.earliest.get(), sent.latest));
        assert_eq!(
            bounds,
            Some((earliest, Some(EpochMillis::new(latest)))),
            "{body} {sent}"
        );
        let via_bridge = body.to_string().contains("detail-type");
        let sender = if via_bridge { "app via AIDA" } else { "AIDA" };
        assert_eq!(update.sender.as_deref(), Some(sender));
    }
    let update = opened(&bridge(&own)).unwrap();
    assert_eq!(update.sender.as_deref(), Some("app"));
    assert_eq!(update.sent_at, Some(SentAt::claimed(EpochMillis::new(2000))));
}

#[test]
fn a_change_set_comes_in_every_envelope() {
    let set = json!({"Actor": "amy", "Updates": [{"ID": "a"}, {"ID": "b"}]});
    let own = json!({"RequestId": "own", "RequestSentAt": 20_000, "Updates": [{"ID": "a"}, {"ID": "b"}]});
    let message = |body: &Value| json!({"Records": [{"messageId": "m", "body": body.to_string(), "attributes": {}}]});
    for (event, id, sender) in [
        (set.clone(), "lambda", None),
        (own.clone(), "own", None),
        (bridge(&set), "bridge", Some("app")),
        (message(&set), "m", None),
        (message(&own), "own", None),
        (message(&sns(&set)), "sns", None),
        (message(&bridge(&set)), "bridge", Some("app")),
    ] {
        let content = content(&event).unwrap();
        let [first, second] = &content[..] else {
            panic!("{event}")
        };
        assert_eq!((first.entity.as_str(), second.entity.as_str()), ("a", "b"));
        for update in [first, second] {
            assert_eq!(
                (update.request_id.as_str(), update.sender.as_deref()),
                (id, sender),
                "{event}"
            );
            assert_eq!((update.sent_at, update.change_set_size), (first.sent_at, Some(2)));
        }
    }
    // What identifies it is written beside the updates.
    let mut event = sns(&set);
    let edit = |members: &mut Map<String, Value>| members.insert("RequestId".to_owned(), json!("new")).is_none();
    assert_eq!(edit_update(&mut event, edit), Some(true));
    assert_eq!(opened(&event).unwrap().request_id.as_str(), "new");
}

/// Members that the function does not use. The types of `aws_lambda_events` reject most of these messages and events.
#[test]
fn unused_members_can_have_any_type() {
    const MESSAGE: &str = r#"
        ["/messageAttributes", null]                              -> message
        ["/messageAttributes", []]                                -> message
        ["/messageAttributes", {"a": null}]                       -> message
        ["/messageAttributes", {"a": {"stringListValues": null}}] -> message
        ["/messageAttributes", {"a": {"binaryValue": "AAE"}}]     -> message
        ["/attributes", null]                                     -> message
        ["/attributes", 7]                                        -> message
        ["/attributes", {"SequenceNumber": 7}]                    -> message
        ["/attributes", {"AWSTraceHeader": null}]                 -> message
        ["/md5OfBody", 7]                                         -> message
        ["/receiptHandle", {}]                                    -> message
        ["/awsRegion", []]                                        -> message
        ["/a new member", 7]                                      -> message
        // The response names the message. Without its id, the whole batch would fail.
        ["/body", 7]                                              -> invalid message
        ["/body", null]                                           -> invalid message
        ["/body", {"ID": "E"}]                                    -> invalid message
        ["/body"]                                                 -> invalid message
    "#;
    const EVENT: &str = r#"
        // The input of a rule's target can be a template, without some of the members.
        ["/source"]                          -> E
        ["/source", null]                    -> E
        ["/detail-type", null]               -> E
        ["/time", "<time>"]                  -> E
        ["/time", "2026-11-22T00:00:00"]     -> E
        ["/id", 7]                           -> E
        ["/resources", [1]]                  -> E
        ["/resources", "arn:aws:x"]          -> E
        ["/account", 111122223333]           -> E
    "#;
    for (patch, expected) in cases(MESSAGE) {
        let message = json!({
            "messageId": "m", "receiptHandle": "r", "body": "{\"ID\": \"E\"}", "md5OfBody": "00",
            "attributes": {"ApproximateReceiveCount": "1", "SentTimestamp": "1000", "SenderId": "AIDA"},
            "messageAttributes": {}, "eventSource": "aws:sqs", "eventSourceARN": "arn:aws:sqs:x", "awsRegion": "x",
        });
        let message = messages(&json!({"Records": [patched(message, &patch)]})).remove(0);
        assert_eq!(message.id.as_deref(), Some("m"), "{patch}");
        assert_eq!(message.body.is_ok(), expected == "message", "{patch}");
    }
    for (patch, entity) in cases(EVENT) {
        let update = opened(&patched(bridge(&json!({"ID": "E"})), &patch)).unwrap();
        assert_eq!(update.entity.as_str(), entity, "{patch}");
    }
}

#[test]
fn an_old_trace_shows_a_later_attempt() {
    let trace = Some("Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1");
    let start = 0x5759_e988;
    let found = |trace, seconds| first_attempt(trace, Duration::from_secs(seconds)).map(EpochMillis::get);
    assert_eq!(found(trace, start + 60), Some(i64::try_from(start).unwrap() * 1000));
    assert_eq!(found(trace, start + 29), None);
    assert_eq!(found(trace, start - 1), None);
    for invalid in [
        None,
        Some(""),
        Some("Root=1"),
        Some("Root=1-x-y"),
        Some("Self=1-5759e988-b"),
    ] {
        assert_eq!(found(invalid, start + 60), None, "{invalid:?}");
    }
}

#[test]
fn an_invalid_message_does_not_affect_the_others() {
    let records = json!({"Records": [
        {"messageId": "good", "body": "{\"ID\": \"E\"}", "attributes": {"MessageGroupId": "g"}},
        {"messageId": "not json", "body": "{"},
        {"messageId": 7, "body": "{\"ID\": \"E\"}"},
        "not a message",
    ]});
    let messages = messages(&records);
    let message = |message: &'_ Message| (message.id.clone(), message.group.clone(), message.body.is_ok());
    let found: Vec<_> = messages.iter().map(message).collect();
    let id = |id: &str| Some(id.to_owned());
    let good = (id("good"), id("g"), true);
    let others = [(id("not json"), None, false), (None, None, true), (None, None, false)];
    assert_eq!(found, [&[good][..], &others].concat());
}

#[test]
fn invalid_events_are_rejected() {
    for event in [
        "[]",
        "7",
        "null",
        "\"text\"",
        "{}",
        "{\"Records\":7}",
        "{\"ID\":\"\\ud800\"}",
    ] {
        let rejected = match parse(event) {
            Ok(Request::Update(envelope)) => envelope.open(&Carrier::invocation("l"), Ordering::Arrival).is_err(),
            Ok(_) => false,
            Err(_) => true,
        };
        assert!(rejected, "{event}");
    }
    let deep = format!("{{\"ID\":\"E\",\"A\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
    let Ok(Request::Update(envelope)) = parse(&deep) else {
        panic!("it is JSON")
    };
    let opened = envelope.open(&Carrier::invocation("lambda"), Ordering::Arrival);
    assert!(matches!(opened, Err(InvalidEvent::NotJson)));
    let many = format!(r#"{{"Records":[{}]}}"#, vec!["0"; MAX_MESSAGES + 1].join(","));
    assert!(matches!(parse(&many), Err(InvalidEvent::TooManyMessages)));
}

#[test]
fn an_event_with_more_elements_than_an_item_can_have_is_rejected() {
    let update = |elements: usize| format!(r#"{{"ID":"E","A":[{}]}}"#, vec!["0"; elements].join(","));
    let notification = |update: &str| json!({"Type": "Notification", "Message": update}).to_string();
    let open = |text: &str| {
        Envelope::parse(text)?
            .open(&Carrier::invocation("lambda"), Ordering::Arrival)
            .map(drop)
    };
    // Two members besides the elements.
    for (elements, is_too_many) in [(MAX_PARTS - 2, false), (MAX_PARTS - 1, true)] {
        let update = update(elements);
        for text in [notification(&update), update] {
            let error = open(&text).unwrap_err();
            assert_eq!(matches!(error, InvalidEvent::TooManyParts), is_too_many, "{error:?}");
            assert!(!crate::error::Error::from(error).is_retryable() || !is_too_many);
        }
    }
    assert!(open(&update(100_000)).is_ok());
}

#[test]
fn what_other_services_send() {
    const EVENTS: &str = r#"
        ["/unused", 7]                            -> sns
        ["/Records/0/Sns/Subject", null]          -> sns
        ["/Records/0/Sns/MessageAttributes", 7]   -> sns
        ["/Records/0/EventVersion"]               -> sns
        ["/Records/0/Sns/MessageId"]              -> lambda
        ["/Records/0/Sns/MessageId", 7]           -> lambda
        ["/Records/0/Sns/Timestamp", "yesterday"] -> sns
        ["/Records/0/Sns/Message"]                -> Records is not one SNS notification
        ["/Records/0/Sns/Message", {"ID": "E"}]   -> Records is not one SNS notification
        ["/Records/0/Sns/Message", "{"]           -> it is not JSON, or nested too deeply
        ["/Records/0/Sns/Message", "{}"]          -> ID is missing
        ["/Records/0/Sns/Type", "Confirmation"]   -> Records is not one SNS notification
        ["/Records/0/Sns", null]                  -> Records is not one SNS notification
        ["/Records/0/Sns", [7]]                   -> Records is not one SNS notification
        ["/Records/0/Sns"]                        -> Records is not one SNS notification
        ["/Records", [{"EventSource": "aws:sns"}, {"EventSource": "aws:sns"}]] -> Records is not one SNS notification
        ["/Records", [{"eventSource": "aws:s3"}]] -> it comes from S3, and is no update: send updates, see docs/events.md
        ["/Records", [7, {"eventSource": "aws:dynamodb"}]] -> it comes from a DynamoDB stream, and is no update: send updates, see docs/events.md
    "#;
    let invocation =
        json!({"Records": [{"EventSource": "aws:sns", "EventVersion": "1.0", "Sns": sns(&json!({"ID": "E"}))}]});
    let found = |event: &Value| match opened(event).map_err(Error::from) {
        Ok(update) => update.request_id.as_str().to_owned(),
        Err(error) => error.message().trim_start_matches("the event is invalid: ").to_owned(),
    };
    let message = |body: &Value| json!({"Records": [{"messageId": "m", "body": body.to_string()}]});
    for (patch, expected) in cases(EVENTS) {
        let event = patched(invocation.clone(), &patch);
        assert_eq!(found(&event), expected, "{patch}");
        // As a redrive sends it.
        assert_eq!(found(&message(&event)), expected.replace("lambda", "m"), "{patch}");
    }
    // A source inside of another is a claim.
    let sender = |event: &Value| opened(event).unwrap().sender;
    let mut nested = patched(
        invocation.clone(),
        &json!(["/Records/0/Sns", sns(&bridge(&json!({"ID": "E"})))]),
    );
    nested["Records"][0]["Sns"]["TopicArn"] = json!("arn:topic");
    assert_eq!(sender(&nested).as_deref(), Some("app via arn:topic"));
    assert_eq!(
        sender(&bridge(&bridge(&json!({"ID": "E"})))).as_deref(),
        Some("app via app")
    );
    let mut event = invocation.clone();
    event["Records"][0]["Sns"]["TopicArn"] = json!("arn:topic");
    let update = opened(&event).unwrap();
    assert_eq!(update.sender.as_deref(), Some("arn:topic"));
    assert_eq!(update.sent_at, Some(SentAt::claimed(EpochMillis::new(1500))));
    let edit = |members: &mut Map<String, Value>| members.insert("RequestId".to_owned(), json!("new")).is_none();
    assert_eq!(edit_update(&mut event, edit), Some(true));
    assert_eq!(found(&event), "new");

    let test = json!({"Service": "Amazon S3", "Event": "s3:TestEvent", "Bucket": "secret"});
    for event in [
        test.clone(),
        message(&test),
        message(&sns(&test)),
        message(&json!({"Records": [{"eventSource": "aws:s3"}]})),
    ] {
        assert_eq!(
            found(&event),
            "it comes from S3, and is no update: send updates, see docs/events.md",
            "{event}"
        );
    }
    // An update with such attributes is an update.
    assert_eq!(
        found(&json!({"ID": "E", "Event": "s3:TestEvent", "Records": [{"eventSource": "aws:s3"}]})),
        "lambda"
    );
}
