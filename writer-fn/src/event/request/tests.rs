use serde_json::json;
use shared::domain::{AttributeValue, change::Change};

use crate::event::request::*;

fn opened(event: &Value) -> (String, String) {
    let Request::Update(envelope) = parse(&raw(event)).unwrap() else {
        panic!("a batch: {event}");
    };
    let update = envelope
        .open(&Carrier::invocation("lambda"), Ordering::Arrival)
        .unwrap();
    (update.entity.as_str().to_owned(), update.request_id.as_str().to_owned())
}

fn raw(event: &Value) -> String {
    event.to_string()
}

fn messages(event: &Value) -> Vec<Message> {
    match parse(&raw(event)).unwrap() {
        Request::Batch(messages) => messages,
        Request::Update(_) => panic!("not a batch: {event}"),
    }
}

#[test]
fn the_innermost_id_is_the_request_id() {
    let update = json!({"ID": "E"});
    let bridge = json!({"version": "0", "id": "bridge", "detail-type": "t", "source": "s", "detail": update});
    let sns = |message: &Value| json!({"Type": "Notification", "MessageId": "sns", "Message": message.to_string()});
    for (event, id) in [
        (update.clone(), "lambda"),
        (json!({"ID": "E", "RequestId": "own"}), "own"),
        (bridge.clone(), "bridge"),
        (json!({"detail-type": "t", "detail": update}), "lambda"),
        (sns(&update), "sns"),
        (sns(&bridge), "bridge"),
        (sns(&json!({"ID": "E", "RequestId": "own"})), "own"),
        // An update with attributes that look like an envelope is an update.
        (
            json!({"ID": "E", "Records": [], "detail-type": "t", "detail": {}, "id": "x"}),
            "lambda",
        ),
    ] {
        assert_eq!(opened(&event), ("E".to_owned(), id.to_owned()), "{event}");
    }
}

#[test]
fn numbers_as_text_arrive_by_every_way() {
    let digits = "12345678901234567890.123456789012345678";
    let update = json!({"ID": "E", "TypedValues": true, "A": {"$number": digits}});
    let bridge = json!({"id": "b", "detail-type": "t", "source": "s", "detail": update});
    let sns = |message: &Value| json!({"Type": "Notification", "MessageId": "s", "Message": message.to_string()});
    let check = |envelope: Envelope, event: &Value| {
        let update = envelope
            .open(&Carrier::invocation("lambda"), Ordering::Arrival)
            .unwrap();
        assert_eq!(update.changes.len(), 1, "{event}");
        assert!(
            update.changes["A"] == Change::Set(AttributeValue::N(digits.to_owned())),
            "{event}"
        );
    };
    for event in [update.clone(), bridge.clone()] {
        let Request::Update(envelope) = parse(&raw(&event)).unwrap() else {
            panic!("a batch: {event}");
        };
        check(envelope, &event);
    }
    for body in [update.clone(), bridge.clone(), sns(&update), sns(&bridge)] {
        let event = json!({"Records": [{"messageId": "m", "body": body.to_string()}]});
        check(messages(&event).remove(0).body.unwrap(), &event);
    }
}

#[test]
fn the_time_belongs_to_the_source_of_the_id() {
    let update = json!({"ID": "E"});
    let own = json!({"ID": "E", "RequestId": "own"});
    let named = json!({"ID": "E", "RequestId": "own", "RequestSentAt": "2026-11-22T00:00:00.5Z"});
    let in_millis = json!({"ID": "E", "RequestSentAt": 7});
    let bridge = |detail: &Value| json!({"id": "b", "detail-type": "t", "source": "app", "time": "1970-01-01T00:00:02Z", "detail": detail});
    let sns = |message: &Value| {
        let time = "1970-01-01T00:00:01.500Z";
        json!({"Type": "Notification", "MessageId": "s", "Timestamp": time, "Message": message.to_string()})
    };
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
        let update = message.body.unwrap().open(&message.carrier, Ordering::Arrival).unwrap();
        assert_eq!(update.sent_at.unwrap().earliest.get(), earliest, "{body} {sent}");
        assert_eq!(
            update.sent_at.unwrap().latest,
            Some(EpochMillis::new(latest)),
            "{body} {sent}"
        );
        let via_bridge = body.to_string().contains("detail-type");
        assert_eq!(
            update.sender.as_deref(),
            Some(if via_bridge { "app via AIDA" } else { "AIDA" })
        );
    }
    let Request::Update(envelope) = parse(&raw(&bridge(&own))).unwrap() else {
        panic!()
    };
    let update = envelope.open(&Carrier::invocation("l"), Ordering::Arrival).unwrap();
    assert_eq!(
        (update.sender.as_deref(), update.sent_at),
        (Some("app"), Some(SentAt::claimed(EpochMillis::new(2000))))
    );
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
        {"messageId": "no body"},
        {"messageId": "odd body", "body": 7, "attributes": 7},
        {"messageId": 7, "body": "{\"ID\": \"E\"}"},
        "not a message",
    ]});
    let found: Vec<_> = messages(&records)
        .into_iter()
        .map(|message| (message.id, message.group, message.body.is_ok()))
        .collect();
    let id = |id: &str| Some(id.to_owned());
    assert_eq!(
        found,
        [
            (id("good"), id("g"), true),
            (id("not json"), None, false),
            (id("no body"), None, false),
            (id("odd body"), None, false),
            (None, None, true),
            (None, None, false),
        ]
    );
}

#[test]
fn numbers_keep_all_digits_in_every_envelope() {
    let inner = r#"{"ID": "E", "N": 12345678901234567890.123456789012345678}"#;
    let sns = json!({"Type": "Notification", "MessageId": "sns", "Message": inner});
    let batch = json!({"Records": [{"messageId": "m", "body": sns.to_string()}]});
    let message = messages(&batch).remove(0);
    let update = message.body.unwrap().open(&message.carrier, Ordering::Arrival).unwrap();
    let number = shared::domain::AttributeValue::N("12345678901234567890.123456789012345678".into());
    assert!(update.changes["N"] == shared::domain::change::Change::Set(number));
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
        let event = event.to_owned();
        let rejected = match parse(&event) {
            Ok(Request::Update(envelope)) => envelope
                .open(&Carrier::invocation("lambda"), Ordering::Arrival)
                .is_err(),
            Ok(Request::Batch(_)) => false,
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
fn a_message_whose_parsing_panics_has_its_id() {
    let message = Message::caught(r#"{"messageId": "m", "body": "{}"}"#, |_| panic!("a defect"));
    assert_eq!(message.id.as_deref(), Some("m"));
    assert!(matches!(message.body, Err(InvalidEvent::Panicked(_))));
}
